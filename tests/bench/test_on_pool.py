#!/usr/bin/env python3
"""mooncake_bench on a real pool: a master, two stores, TCP. The hit ratios must be the model's."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

import workload  # noqa: E402
from pool import Pool  # noqa: E402

PROGRAMS = ""
BLOCK = 4096
SPACE = BLOCK + 64  # with the extent's header


def bench(pool, command, *args, status=0, timeout=200, env=None):
    done = subprocess.run([os.path.join(PROGRAMS, "mooncake_bench"), command, "--master",
                           pool.address, "--json", "--no-limits", *args],
                          capture_output=True, text=True, timeout=timeout, check=False, env=env)
    assert done.returncode == status, (done.returncode, done.stderr, done.stdout[-2000:])
    return json.loads(done.stdout) if done.stdout else done.stderr


class Replay(unittest.TestCase):
    def setUp(self):
        self.requests = workload.requests(600)
        self.trace = workload.write_trace(self.requests)
        self.addCleanup(os.unlink, self.trace)

    def test_roomy_pool_gives_the_models_hits(self):
        with Pool(PROGRAMS, ["64MiB", "64MiB"]) as pool:
            result = bench(pool, "replay", "--trace", self.trace)
            self.assertEqual(result["hits"], workload.lru_hits(self.requests, 10 ** 9))
            self.assertEqual(result["verified_bytes"], result["hits"] * BLOCK)
            self.assertEqual(result["put"]["keys"], result["distinct_blocks"])

    def test_small_pool_lies_between_the_models_of_its_eviction(self):
        blocks = 300  # of each store
        with Pool(PROGRAMS, [str(blocks * SPACE)] * 2, ["--default_kv_lease_ttl=1ms"]) as pool:
            result = bench(pool, "replay", "--trace", self.trace)
            models = {model["what"]: model for model in result["models"]}
            self.assertEqual(models["the whole pool"]["capacity_blocks"], 2 * blocks)
            self.assertLess(result["hits"], workload.lru_hits(self.requests, 10 ** 9))
            # A block may be under its lease, or on the fuller of two stores: a little slack.
            self.assertGreater(result["hits"],
                               0.9 * workload.lru_hits(self.requests, int(0.8 * 2 * blocks)))
            self.assertLessEqual(result["hits"], models["the whole pool"]["hits"])

    def test_chat_is_verified(self):
        with Pool(PROGRAMS, ["256MiB"]) as pool:
            result = bench(pool, "replay", "--requests", "100", "--block-bytes", "20000",
                           "--cleanup")
            self.assertEqual(result["hits"], result["models"][0]["hits"])
            self.assertGreater(result["verified_bytes"], 10 ** 7)

    def test_stopped_master_ends_it_by_the_deadline(self):
        with Pool(PROGRAMS, ["1MiB"]) as pool:
            pool.master.freeze()
            start = time.monotonic()
            words = bench(pool, "replay", "--trace", self.trace, "--timeout", "500ms", status=1)
            self.assertLess(time.monotonic() - start, 30)
            self.assertIn("cannot open the pool", words)
            pool.master.wake()


class Io(unittest.TestCase):
    def test_each_operation_of_many_workers_is_right(self):
        with Pool(PROGRAMS, ["256MiB", "256MiB"]) as pool:
            result = bench(pool, "io", "--sizes", "0,5000,1MiB", "--batches", "1,5", "--ops",
                           "put,get,view,mix,exist,miss,size,remove", "--time", "50ms", "--threads",
                           "2", "--processes", "2", "--working-set", "32MiB", "--keys", "64")
            self.assertEqual(len(result["cases"]), 3 * 2 * 8)
            for case in result["cases"]:
                self.assertGreater(case["calls"], 0, case)
                moves = case["op"] in ("put", "get", "view", "mix")
                self.assertEqual(case["bytes"], case["keys"] * case["value_bytes"] * moves)
            self.assertGreater(result["verified_bytes"], 0)

    def test_cpu_time_of_callers_and_daemons_is_counted(self):
        with Pool(PROGRAMS, ["64MiB"]) as pool:
            pids = [str(daemon.process.pid) for daemon in (pool.master, *pool.stores)]
            args = ("io", "--transport", "tcp", "--sizes", "1MiB", "--batches", "8", "--ops",
                    "get", "--time", "200ms", "--working-set", "16MiB")
            alone = bench(pool, *args)["cases"][0]
            case = bench(pool, *args, "--pids", ",".join(pids), "--poll-us", "0")["cases"][0]
            self.assertGreater(alone["cpu_ns"], 0)
            self.assertEqual(alone["daemons_cpu_ns"], 0)
            self.assertGreater(case["daemons_cpu_ns"], 0)
            # No call can use more than a core, nor the daemons more than there are.
            self.assertLess(case["cpu_ns"], case["bytes"] / case["bytes_per_s"] * 1.1e9)

    def test_meta_is_right(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            result = bench(pool, "meta", "--time", "50ms", "--keys", "2048")
            self.assertEqual(result["errors"], 0)


class Peers(unittest.TestCase):
    """Beside Redis and memcached, as far as they are here."""

    ARGS = ("--sizes", "100,300KiB", "--batches", "1,40", "--time", "20ms", "--working-set",
            "16MiB")
    SMALL = ("--sizes", "100", "--batches", "4", "--time", "20ms")

    def left_behind(self):
        return {name for name in os.listdir("/tmp") if name.startswith("mooncake-bench-")}

    def test_each_one_that_is_installed_gives_right_bytes(self):
        programs = {"redis": "redis-server", "memcached": "memcached"}
        here = [name for name, program in programs.items() if shutil.which(program)]
        before = self.left_behind()
        with Pool(PROGRAMS, ["64MiB"]) as pool:
            result = bench(pool, "peers", *self.ARGS)
        self.assertEqual(len(result["cases"]), 2 * 2 * 2)
        for case in result["cases"]:
            expected = {"mooncake", "mooncake tcp"}
            expected |= {f"{name} {way}" for name in here for way in ("tcp", "unix")}
            self.assertEqual(set(case["who"]), expected)
            for who, figures in case["who"].items():
                self.assertGreater(figures["keys"], 0, who)
                self.assertEqual(figures["bytes"], figures["keys"] * case["value_bytes"], who)
            self.assertEqual(case["tcp_x_best_rival"] is None, not here)
        self.assertGreater(result["verified_bytes"], 0)
        self.assertEqual(self.left_behind() - before, set())
        if not here:
            self.skipTest("skipped in part: neither redis-server nor memcached is installed")

    def run_with_path(self, script, status):
        with tempfile.TemporaryDirectory() as folder:
            if script is not None:
                path = os.path.join(folder, "redis-server")
                with open(path, "w", encoding="ascii") as file:
                    file.write(script)
                os.chmod(path, 0o755)
            with Pool(PROGRAMS, ["16MiB"]) as pool:
                return bench(pool, "peers", *self.SMALL, status=status,
                             env={**os.environ, "PATH": folder})

    def test_who_is_not_installed_is_left_out(self):
        result = self.run_with_path(None, 0)
        for case in result["cases"]:
            self.assertEqual(set(case["who"]), {"mooncake", "mooncake tcp"})
            self.assertIsNone(case["tcp_x_best_rival"])

    def test_one_that_does_not_start_ends_the_run(self):
        result = self.run_with_path("#!/bin/sh\nexit 3\n", 1)
        self.assertIn("redis-server did not start", result["first_error"])

    def test_one_that_answers_something_else_ends_the_run(self):
        server = f"""#!{sys.executable}
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
peer, _ = listener.accept()
peer.recv(1)
peer.sendall(b"-ERR no room\\r\\n")
peer.recv(1 << 20)
peer.recv(1 << 20)
"""
        before = self.left_behind()
        result = self.run_with_path(server, 1)
        self.assertIn("-ERR no room", result["first_error"])
        self.assertEqual(self.left_behind() - before, set())


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
