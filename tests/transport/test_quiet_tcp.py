#!/usr/bin/env python3
"""Told to use TCP, nobody looks for RDMA: no device is looked for, none is opened, no library loaded.

Every path that the processes name in a system call is read from strace. Beside each of them a process
that may use RDMA is watched in the same way: it must be seen to look, or watching would prove nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from pool import Pool  # noqa: E402
from wait import wait_for  # noqa: E402

OF_RDMA = re.compile(r"infiniband|libibverbs|librdmacm|rdma_cm|libmlx5|librxe")
SECONDS = 120


def skip(why):
    print("SKIPPED: " + why)
    sys.exit(77)


def watched(trace, command):
    """The command, with the paths of its system calls in @p trace; it keeps its process id (-D). A
    sanitizer cannot look for leaks in a process that is traced."""
    return ["strace", "-D", "-f", "-q", "-E", "ASAN_OPTIONS=detect_leaks=0", "-e", "trace=%file",
            "-o", trace, *command]


def read(trace):
    with open(trace, encoding="utf-8", errors="replace") as file:
        return file.read()


def paths_of_rdma(trace, pid):
    """Of a process that has ended; strace ends a little later."""
    wait_for("the trace has its end",
             lambda: re.search(rf"^{pid} +\+\+\+ (exited|killed)", read(trace), re.M), SECONDS,
             tell=lambda: read(trace)[-2000:])
    return [line for line in read(trace).split("\n") if OF_RDMA.search(line)]


class QuietTcp(unittest.TestCase):
    def setUp(self):
        self.pool = Pool(PROGRAMS)
        self.addCleanup(self.pool.close)

    def trace(self, name):
        return os.path.join(self.pool.scratch.name, name + ".trace")

    def serve(self, name, command):
        """Start it, wait until it serves. Returns what ends it and tells its paths."""
        trace = self.trace(name)
        daemon = self.pool._start(name, watched(trace, command))
        daemon.ports()

        def paths():
            daemon.stop()
            return paths_of_rdma(trace, daemon.process.pid)
        return paths

    def serve_store(self, name, *options):
        return self.serve(name, [
            os.path.join(PROGRAMS, "mooncake_store"), "--master=" + self.pool.address,
            "--segment=64MiB", "--grace=0", "--advertise_host=127.0.0.1", "--shm=off", *options])

    def put_and_get(self, name, transport):
        """Paths of a client."""
        trace = self.trace(name)
        with subprocess.Popen(watched(trace, [
                os.path.join(PROGRAMS, "mooncake_bench"), "io", "--master=" + self.pool.address,
                "--transport=" + transport, *IO]), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as client:
            said = client.communicate(timeout=SECONDS)[0]
        self.assertEqual(client.returncode, 0, said)
        return paths_of_rdma(trace, client.pid)

    def test_store_and_client_over_tcp_touch_nothing_of_rdma(self):
        store = self.serve_store("quiet", "--rdma=off")
        self.assertEqual(self.put_and_get("client", "tcp"), [])
        self.assertEqual(store(), [])

    def test_those_that_may_use_it_are_seen_to_look(self):
        store = self.serve_store("open", "--rdma=auto")
        self.assertIn("/sys/class/infiniband", "\n".join(self.put_and_get("client", "auto")))
        self.assertIn("/sys/class/infiniband", "\n".join(store()))

    def test_the_master_never_does(self):
        master = self.serve("master2", [os.path.join(PROGRAMS, "mooncake_master"), "--rpc_port=0",
                                        "--metrics_port=0"])
        self.assertEqual(master(), [])


IO = ("--sizes=64KiB", "--batches=4", "--time=200ms", "--working-set=8MiB", "--no-limits")

if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    if shutil.which("strace") is None:
        skip("no strace here; run tools/setup test")
    if subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode != 0:
        skip("this process may not trace others")
    unittest.main()
