#!/usr/bin/env python3
"""promtool finds nothing wrong with the pages, a real Prometheus scrapes master and store, and the
figures agree with one another while the pool works. Without Prometheus (Debian's package of that
name) only the last part runs, and the end says "skipped".

usage: test_prometheus.py SOURCE_ROOT BIN"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from web import BIN, fetch, metrics
from pool import Pool, die_with_parent
from wait import wait_for

WAIT_SECONDS = 90
SKIPPED = 77

# Names that promtool dislikes and that are as they are for others' sake: those of the C++ Mooncake,
# and one that operators asked for.
GIVEN = re.compile(r"(?!mooncake_(master|store)_)|mooncake_master_gauge_recount_mismatch_total ")


def check_pages(promtool, addresses):
    for address in addresses:
        page = fetch(address, "/metrics")[1]
        done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True,
                              text=True, timeout=60)
        # 0: nothing to say; 3: dislikes names; else the page cannot be read
        assert done.returncode in (0, 3), done
        ours = [line for line in (done.stdout + done.stderr).splitlines() if not GIVEN.match(line)]
        assert not ours, "\n".join(ours)
    broken = subprocess.run([promtool, "check", "metrics"], input="a{b=} 1\n", capture_output=True,
                            text=True, timeout=60)
    assert broken.returncode not in (0, 3), "promtool takes everything"


def listening_port(pid):
    """The port that a process listens on; None as long as there is none."""
    inodes = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
        except FileNotFoundError:
            continue
        inodes.update(re.findall(r"socket:\[(\d+)\]", target))
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    return int(words[1].split(":")[1], 16)
    return None


class Prometheus:
    """A Prometheus that scrapes, on a port that the kernel picks."""

    def __init__(self, program, folder, addresses):
        config = os.path.join(folder, "prometheus.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s"},
                       "scrape_configs": [{"job_name": "pool",
                                           "static_configs": [{"targets": addresses}]}]}, file)
        self.log = os.path.join(folder, "prometheus.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program, "--config.file=" + config, "--web.listen-address=127.0.0.1:0",
                 "--storage.tsdb.path=" + os.path.join(folder, "tsdb")],
                stdout=log, stderr=log, preexec_fn=die_with_parent)
        try:
            self.address = "127.0.0.1:%d" % self.wait_for(
                "it listens", lambda: listening_port(self.process.pid))
        except BaseException:
            self.stop()
            raise

    def wait_for(self, what, ask):
        return wait_for(what, ask, WAIT_SECONDS, lambda: self.process.poll() is not None,
                        self.last_lines)

    def last_lines(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def query(self, expression):
        """The values of an expression; empty if there are none yet."""
        status, text = fetch(self.address, "/api/v1/query?" +
                             urllib.parse.urlencode({"query": expression}))
        if status != 200:
            return []
        return [float(sample["value"][1]) for sample in json.loads(text)["data"]["result"]]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def ctl(pool, *words):
    return subprocess.run([os.path.join(BIN, "mooncakectl"), "--master=" + pool.address, *words],
                          timeout=60, capture_output=True).returncode


def scrape(program, pool, addresses):
    with tempfile.TemporaryDirectory() as folder:
        prometheus = Prometheus(program, folder, addresses)
        try:
            prometheus.wait_for("both targets are up", lambda: prometheus.query("up") == [1, 1])
            prometheus.wait_for("the key is seen",
                                lambda: prometheus.query("mooncake_master_keys") == [1])
            prometheus.wait_for("the store is seen",
                                lambda: prometheus.query("mooncake_store_joined") == [1])
            prometheus.wait_for("both pages are whole", lambda: sorted(
                count > least for count, least in zip(
                    sorted(prometheus.query("scrape_samples_scraped")), (30, 500))) == [True, True])
            quantile = prometheus.wait_for("a quantile", lambda: prometheus.query(
                "histogram_quantile(0.99, mooncake_master_rpc_latency_seconds_bucket"
                '{method="put_end"})'))
            assert 0 < quantile[0] < 60, quantile
            ctl(pool, "rm", "k", "--force")
            prometheus.wait_for("the removal is seen",
                                lambda: prometheus.query("mooncake_master_keys") == [0])
        finally:
            prometheus.stop()


def figures_agree(pool):
    """While clients work, each page agrees with itself."""
    value = os.path.join(pool.scratch.name, "value")
    with open(value, "wb") as file:
        file.write(b"v" * 100000)
    end = threading.Event()
    failures = []

    def work(number):
        while not end.is_set():
            if ctl(pool, "put", f"key-{number}", value) != 0:
                failures.append(number)
            ctl(pool, "get", f"key-{number}", "-")
            ctl(pool, "get", "absent", "-")
            ctl(pool, "rm", f"key-{number}", "--force")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    try:
        seen = set()
        deadline = time.monotonic() + WAIT_SECONDS
        while len(seen) < 5:
            now = metrics(pool.metrics_address)
            hits, misses = (now[f"mooncake_master_{what}_total"] for what in ("hits", "misses"))
            assert hits + misses == now["mooncake_master_lookups_total"], now
            assert now["master_key_count"] == now["mooncake_master_keys"], now
            assert now["master_allocated_bytes"] == now["mooncake_master_used_bytes"], now
            assert now["valid_get_nums_"] <= now["total_get_nums_"], now
            seen.add(hits)
            assert time.monotonic() < deadline, f"nothing happens: {seen}"
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert ctl(pool, "verify") == 0, "a recount differs from the gauges"


def main():
    promtool, prometheus = shutil.which("promtool"), shutil.which("prometheus")
    with Pool(BIN) as pool:
        store = pool.add_store("64MiB", "--admin_port=0")
        addresses = [pool.metrics_address, f"127.0.0.1:{store.ports()['admin_port']}"]
        figures_agree(pool)
        with open(os.path.join(pool.scratch.name, "value"), "rb") as file:
            assert ctl(pool, "put", "k", file.name) == 0
        if promtool is None or prometheus is None:
            print("prometheus: skipped: Debian's package prometheus is not installed")
            return SKIPPED
        check_pages(promtool, addresses)
        scrape(prometheus, pool, addresses)
    print("prometheus: all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
