"""mooncakectl on real pools: how tests call it. The first argument is the programs' directory."""

import fcntl
import json
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unittest

from pool import Pool, die_with_parent

PROGRAMS = sys.argv.pop(1)
SEGMENT = 256 << 20


def run(address, *args, data=b""):
    """Exit status, stdout, stderr."""
    env = {**os.environ, "MOONCAKE_MASTER": address}
    result = subprocess.run([os.path.join(PROGRAMS, "mooncakectl"), *args], input=data, env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False,
                            preexec_fn=die_with_parent)
    return result.returncode, result.stdout, result.stderr.decode()


class Terminal:
    """A command on a terminal of its own, of 100 columns: what it draws, what is typed."""

    def __init__(self, address, *args):
        self.ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env = {**os.environ, "MOONCAKE_MASTER": address, "TERM": "xterm", "NO_COLOR": ""}

        def take_terminal():
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
            die_with_parent()

        self.drawn = b""
        try:
            self.process = subprocess.Popen([os.path.join(PROGRAMS, "mooncakectl"), *args], env=env,
                                            stdin=theirs, stdout=theirs, stderr=theirs,
                                            preexec_fn=take_terminal)
        finally:
            os.close(theirs)

    def read_until(self, pattern):
        """Until this was drawn, or the command has ended. All that was drawn so far."""
        deadline = time.monotonic() + 60
        while not re.search(pattern, self.drawn) and time.monotonic() < deadline:
            if select.select([self.ours], [], [], 1)[0]:
                try:
                    more = os.read(self.ours, 1 << 16)
                except OSError:  # the last of the other side has gone
                    break
                self.drawn += more
        return self.drawn

    def type(self, text):
        os.write(self.ours, text)

    def end(self):
        """Exit status, and all that was drawn."""
        self.read_until(rb"\Z(?!)")
        return self.process.wait(60), self.drawn

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)


class OnePool(unittest.TestCase):
    """Tests that share a pool of two stores; each uses keys of its own."""

    @classmethod
    def setUpClass(cls):
        cls.pool = Pool(PROGRAMS, [str(SEGMENT), str(SEGMENT)])
        cls.addClassCleanup(cls.pool.close)

    def ctl(self, *args, data=b""):
        return run(self.pool.address, *args, data=data)

    def ok(self, *args, data=b""):
        """stdout of a command that must succeed."""
        status, out, err = self.ctl(*args, data=data)
        self.assertEqual((status, err), (0, ""), args[:3])
        return out

    def json(self, *args, status=0):
        got, out, err = self.ctl(*args, "--json")
        self.assertEqual(got, status, err)
        return json.loads(out)
