"""A headless Chromium for tests, driven over the WebDriver protocol: JSON over HTTP, no package."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

from wait import wait_for

SKIPPED = 77
START_SECONDS = 60
ANSWER_SECONDS = 120


def missing():
    """What is to be installed before there can be a browser; empty: nothing."""
    wanted = {"chromium": "chromium", "chromedriver": "chromium-driver"}
    return [package for program, package in wanted.items() if shutil.which(program) is None]


class Failed(Exception):
    """What the browser says about a command that it could not do."""


class Browser:
    """Use as a context manager. All files of it are in a folder that goes at the end."""

    def __init__(self, width=1280, height=900):
        self.scratch = tempfile.TemporaryDirectory()
        self.driver = None
        self.session = ""
        try:
            self._start()
            self._open(width, height)
        except BaseException:
            self.close()
            raise

    def _start(self):
        log = os.path.join(self.scratch.name, "driver.log")
        with open(log, "wb") as file:
            # A group of its own: the browser's processes go with the driver, whatever happens.
            self.driver = subprocess.Popen(
                [shutil.which("chromedriver"), "--port=0"], stdin=subprocess.DEVNULL, stdout=file,
                stderr=file, start_new_session=True, env={**os.environ, "HOME": self.scratch.name})

        def said():
            with open(log, encoding="utf-8", errors="replace") as file:
                return file.read()

        started = wait_for("chromedriver serves",
                           lambda: re.search(r"started successfully on port (\d+)", said()),
                           START_SECONDS, lambda: self.driver.poll() is not None, said)
        self.base = f"http://127.0.0.1:{started[1]}"

    def _open(self, width, height):
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb",
                 f"--window-size={width},{height}",
                 "--user-data-dir=" + os.path.join(self.scratch.name, "profile")]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": flags},
                  "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + answer["sessionId"]

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(json.load(error)["value"]["message"]) from None

    def go(self, address):
        self._ask("POST", self.session + "/url", {"url": address})

    def run(self, script, *args):
        """What the body of a function gives back; runs in the page."""
        return self._ask("POST", self.session + "/execute/sync",
                         {"script": script, "args": list(args)})

    def command(self, name, **params):
        """One of the browser's own commands (DevTools protocol)."""
        return self._ask("POST", self.session + "/goog/cdp/execute",
                         {"cmd": name, "params": params})

    def log(self):
        """What the console has got since the last time: errors, blocked scripts."""
        return self._ask("POST", self.session + "/se/log", {"type": "browser"})

    def screen(self, width, height, dark=False):
        """As if on a screen of this size, also below a window's least width."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=1, mobile=False)
        self.command("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path):
        """The whole page as a PNG."""
        width, height = self.run("const d = document.documentElement;"
                                 "return [d.scrollWidth, d.scrollHeight];")
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def wait(self, what, script, *args, seconds=60):
        """Until the script's answer is true; that answer."""
        return wait_for(what, lambda: self.run(script, *args), seconds)

    def close(self):
        if self.driver is None:
            return
        try:
            if self.session:
                self._ask("DELETE", self.session)
        except (Failed, OSError):
            pass
        try:
            os.killpg(self.driver.pid, 9)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.driver = None
        shutil.rmtree(self.scratch.name, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
