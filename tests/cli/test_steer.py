#!/usr/bin/env python3
"""mooncakectl where it looks into a pool or steers it: misses, probes, archives, draining.

usage: test_steer.py DIRECTORY_OF_THE_PROGRAMS"""

import json
import os
import re
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

from ctl import PROGRAMS, Terminal, run
from pool import HeldPort, Pool, die_with_parent
from wait import wait_for


class Misses(unittest.TestCase):
    def why(self, pool, key):
        status, out, err = run(pool.address, "why-miss", key, "--json")
        miss = json.loads(out)
        self.assertEqual(status, 0 if miss["fate"] == "readable" else 1, err)
        return miss

    def test_what_became_of_keys(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            self.assertEqual(self.why(pool, "never")["fate"], "unknown")
            self.assertIn(b"never written since the master started",
                          run(pool.address, "why-miss", "never")[1])
            for key in ("gone", "kept"):
                self.assertEqual(run(pool.address, "put", key, "-", data=b"x")[0], 0)
            self.assertEqual(run(pool.address, "rm", "gone")[0], 0)
            self.assertEqual(self.why(pool, "gone")["fate"], "removed")
            self.assertEqual(self.why(pool, "kept")["fate"], "readable")
            page = b"y" * (1 << 20)
            for i in range(20):
                self.assertEqual(run(pool.address, "put", f"page{i}", "-", data=page)[0], 0)
            self.assertEqual(self.why(pool, "page0")["fate"], "evicted")
            self.assertEqual(self.why(pool, "page19")["fate"], "readable")

    def test_a_key_that_was_lost_with_its_store(self):
        with Pool(PROGRAMS, ["16MiB"], ["--client_ttl=5"]) as pool:
            self.assertEqual(run(pool.address, "put", "k", "-", data=b"x")[0], 0)
            name = json.loads(run(pool.address, "segments", "--json")[1])["segments"][0]["name"]
            pool.stores[0].stop(signal.SIGKILL)
            wait_for("the key is gone", lambda: self.why(pool, "k")["fate"] != "readable")
            miss = self.why(pool, "k")
            self.assertEqual((miss["fate"], miss["store"]), ("lost", name))
            self.assertIn(name.encode(), run(pool.address, "why-miss", "k")[1])

    def test_a_master_that_remembers_nothing(self):
        with Pool(PROGRAMS, ["16MiB"], ["--miss_history=0"]) as pool:
            self.assertEqual(run(pool.address, "put", "k", "-", data=b"x")[0], 0)
            self.assertEqual(run(pool.address, "rm", "k")[0], 0)
            self.assertEqual(self.why(pool, "k")["fate"], "unknown")
            self.assertIn(b"miss_history", run(pool.address, "why-miss", "k")[1])


class Checks(unittest.TestCase):
    def test_every_segment_takes_gives_and_forgets(self):
        with Pool(PROGRAMS, ["16MiB", "16MiB"]) as pool:
            status, out, err = run(pool.address, "check", "--json")
            self.assertEqual((status, err), (0, ""))
            probes = json.loads(out)["segments"]
            self.assertEqual([p["ok"] for p in probes], [True, True])
            for probe in probes:
                for step in ("put_us", "get_us", "remove_us"):
                    self.assertGreater(probe[step], 0)
            self.assertEqual(run(pool.address, "ls")[1], b"", "no probe is left")
            self.assertEqual(run(pool.address, "drain", probes[0]["segment"])[0], 0)
            status, out, _ = run(pool.address, "check")
            self.assertEqual(status, 0)
            self.assertRegex(out, rb"(?m)^\S+ +draining +- +- +-$")

    def test_a_segment_that_does_not_answer_is_named(self):
        with Pool(PROGRAMS, ["16MiB", "16MiB"]) as pool:
            port = pool.stores[1].ports()["data_port"]
            pool.stores[1].freeze()
            status, out, _ = run(pool.address, "check", "--timeout=5s", "--json")
            self.assertEqual(status, 1)
            failed = [p for p in json.loads(out)["segments"] if not p["ok"]]
            self.assertEqual([p["segment"].split(":")[1] for p in failed], [str(port)])
            self.assertIn("put", failed[0]["why"])

    def test_peers(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            pool.add_store("16MiB", "--shm=off").ports()
            status, out, err = run(pool.address, "peers", "--json")
            self.assertEqual((status, err), (0, ""))
            peers = json.loads(out)["peers"]
            self.assertEqual([p["transport"] for p in peers], ["shm", "tcp"])
            self.assertEqual([p["queue_pairs"] for p in peers], [0, 0])
            self.assertRegex(run(pool.address, "peers")[1], rb"(?m)^\S+ +tcp +")

    def test_top(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            env = {**os.environ, "MOONCAKE_MASTER": pool.address}
            with subprocess.Popen([os.path.join(PROGRAMS, "mooncakectl"), "top", "--json",
                                   "--interval=100ms"], env=env, stdout=subprocess.PIPE,
                                  preexec_fn=die_with_parent) as top:
                seen = json.loads(top.stdout.readline())
                self.assertEqual((seen["gets_per_s"], seen["puts_per_s"]), (0, 0))
                self.assertIsNone(seen["hit_ratio"])
                self.assertEqual(run(pool.address, "put", "k", "-", data=b"x" * 100000)[0], 0)
                self.assertEqual(run(pool.address, "get", "k")[0], 0)
                self.assertEqual(run(pool.address, "get", "miss")[0], 1)
                puts = hits = 0
                deadline = time.monotonic() + 60
                while (puts == 0 or hits == 0) and time.monotonic() < deadline:
                    seen = json.loads(top.stdout.readline())
                    puts += seen["puts_per_s"]
                    hits += seen["hit_ratio"] or 0
                self.assertGreater(puts, 0)
                self.assertGreater(hits, 0)
                self.assertEqual(seen["keys"], 1)
                self.assertGreaterEqual(seen["segments"][0]["used"], 100000)
                top.stdout.close()
                self.assertNotEqual(top.wait(30), 0, "it ends when nobody reads")
            status, out, _ = run(pool.address, "top", "--count=3", "--interval=1ms")
            lines = out.decode().splitlines()
            self.assertEqual((status, len(lines)), (0, 4))
            self.assertLessEqual(max(map(len, lines)), 100)
            self.assertRegex(lines[3], r"97\.8 KiB +0\.6 %$")


class Diag(unittest.TestCase):
    def archive(self, address, *args):
        """name -> content of what diag wrote."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "d.tar.gz")
            status, out, err = run(address, "diag", path, *args)
            self.assertEqual((status, err), (0, ""))
            self.assertIn(path.encode(), out)
            with tarfile.open(path) as archive:
                return {member.name: archive.extractfile(member).read()
                        for member in archive.getmembers() if member.isfile()}

    def test_what_is_in_it_and_what_is_not(self):
        secret = "prompt-of-somebody/77"
        with Pool(PROGRAMS, ["16MiB"], ["--log_level=debug"]) as pool:
            self.assertEqual(run(pool.address, "put", secret, "-", data=b"the-value")[0], 0)
            path = os.path.join(pool.scratch.name, "copy.log")
            with open(path, "w", encoding="ascii") as log:
                log.write(pool.master.log_text() +
                          f"2026-03-01T12:00:00.000000Z I x.y key={secret} after=1\n"
                          f'2026-03-01T12:00:00.000000Z W x.y key="{secret} \\" x" after=2\n'
                          f"2026-03-01T12:00:00.000000Z D x.y anything {secret}\n")
            parts = self.archive(pool.address, "--metrics=" + pool.metrics_address,
                                 "--log=" + path)
            for name in ("version", "status", "segments", "stores", "clients", "why-full",
                         "config"):
                self.assertNotIn("error", json.loads(parts[f"mooncake-diag/{name}.json"]))
            self.assertEqual(json.loads(parts["mooncake-diag/status.json"])["keys"], 1)
            self.assertIn(b"mooncake_master_keys 1", parts["mooncake-diag/metrics.txt"])
            log = parts["mooncake-diag/log.txt"].decode()
            self.assertRegex(log, r"(?m)^\S+ I x\.y key=#[0-9a-f]{16} after=1$")
            self.assertRegex(log, r"(?m)^\S+ W x\.y key=#[0-9a-f]{16} after=2$")
            self.assertIn("segment.mounted", log)
            everything = b"".join(parts.values())
            for word in (secret.encode(), b"somebody", b"the-value"):
                self.assertNotIn(word, everything)

    def test_a_pool_out_of_reach(self):
        with HeldPort() as nobody:
            parts = self.archive(nobody.address)
        self.assertIn("mooncakectl", json.loads(parts["mooncake-diag/version.json"]))
        self.assertEqual(json.loads(parts["mooncake-diag/status.json"])["error"]["name"], "ERPC")

    def test_files_that_cannot_be(self):
        status, _, err = run("127.0.0.1:1", "diag", "--log=/nonexistent/log")
        self.assertEqual(status, 4)
        self.assertIn("/nonexistent/log", err)
        status, _, err = run("127.0.0.1:1", "diag", "/nonexistent/folder/d.tar.gz")
        self.assertEqual(status, 4)
        self.assertIn("tar could not write", err)


class Drain(unittest.TestCase):
    def segments(self, pool):
        listed = json.loads(run(pool.address, "segments", "--json")[1])["segments"]
        return {s["name"]: s for s in listed}

    def put(self, pool, key, *options):
        self.assertEqual(run(pool.address, "put", key, "-", *options, data=b"x" * 1000)[0], 0)

    def test_a_store_is_taken_out_and_back(self):
        with Pool(PROGRAMS, ["16MiB", "16MiB"], ["--default_kv_lease_ttl=1s"]) as pool:
            for i in range(20):
                self.put(pool, f"single{i}")
            self.put(pool, "double", "--replicas=2")
            name, before = next(iter(self.segments(pool).items()))
            store = before["addresses"].split("://")[1].split()[0]
            self.assertEqual(run(pool.address, "get", "double")[0], 0)  # a lease to wait for
            status, out, err = run(pool.address, "drain", store, "--json")
            self.assertEqual((status, err), (0, ""))
            answer = json.loads(out)
            self.assertTrue(answer["unused"])
            self.assertEqual((answer["leased"], answer["draining"]), (0, 1))
            self.assertEqual(answer["keys"], before["extents"])
            self.assertEqual(answer["sole_keys"], before["extents"] - 1, "all but double")
            self.assertEqual(len(answer["only_here"]), min(20, answer["sole_keys"]))
            self.assertNotIn("double", answer["only_here"])
            self.assertEqual(self.segments(pool)[name]["state"], "draining")
            stores = json.loads(run(pool.address, "stores", "--json")[1])["stores"]
            self.assertEqual(sorted(s["state"] for s in stores), ["draining", "ok"])
            for i in range(20):
                self.put(pool, f"later{i}")
                self.assertEqual(run(pool.address, "get", f"single{i}")[0], 0, "still readable")
            self.assertEqual(self.segments(pool)[name]["extents"], before["extents"])
            status, out, _ = run(pool.address, "drain", name, "--cancel")
            self.assertEqual((status, out), (0, b"cancelled: new data is placed there again\n"))
            self.assertEqual(self.segments(pool)[name]["state"], "ok")

    def test_leases_that_do_not_end_in_time(self):
        with Pool(PROGRAMS, ["16MiB"], ["--default_kv_lease_ttl=10m"]) as pool:
            self.put(pool, "k")
            self.assertEqual(run(pool.address, "get", "k")[0], 0)
            name = next(iter(self.segments(pool)))
            status, out, err = run(pool.address, "drain", name, "--timeout=500ms")
            self.assertEqual((status, err), (1, ""))
            self.assertIn(b"still in use", out)
            self.assertIn(b"it stays draining", out)
            self.assertIn(b"only here:\n  k\n", out)
            self.assertEqual(self.segments(pool)[name]["state"], "draining")
            status, _, err = run(pool.address, "put", "new", "-", data=b"x")
            self.assertEqual(status, 4)
            self.assertIn("ENOSPACE", err)

    def test_ctrl_c_puts_it_back(self):
        with Pool(PROGRAMS, ["16MiB"], ["--default_kv_lease_ttl=10m"]) as pool:
            self.put(pool, "k")
            self.assertEqual(run(pool.address, "get", "k")[0], 0)
            name = next(iter(self.segments(pool)))
            env = {**os.environ, "MOONCAKE_MASTER": pool.address}
            with subprocess.Popen([os.path.join(PROGRAMS, "mooncakectl"), "drain", name], env=env,
                                  stdout=subprocess.PIPE, preexec_fn=die_with_parent) as process:
                self.assertEqual(process.stdout.readline(), b"nothing new is placed on 1 segment\n")
                self.assertEqual(self.segments(pool)[name]["state"], "draining")
                process.send_signal(signal.SIGINT)
                self.assertIn(b"cancelled", process.stdout.read())
                self.assertEqual(process.wait(30), 1)
            self.assertEqual(self.segments(pool)[name]["state"], "ok")

    def test_the_bar_on_a_terminal(self):
        with Pool(PROGRAMS, ["16MiB"], ["--default_kv_lease_ttl=3s"]) as pool:
            self.put(pool, "k")
            name = next(iter(self.segments(pool)))
            self.assertEqual(run(pool.address, "get", "k")[0], 0)
            with Terminal(pool.address, "drain", name) as terminal:
                terminal.read_until(rb"Ctrl-C cancels")
                self.assertEqual(self.segments(pool)[name]["state"], "draining")
                status, drawn = terminal.end()
            self.assertEqual(status, 0, drawn)
            self.assertRegex(drawn, rb"\r\x1b\[K\[[#.]{30}\] 1\.[0-9] KiB in use; Ctrl-C cancels")
            self.assertRegex(drawn, rb"cancels\r\x1b\[Kdrained: nobody uses what is there\r\n")
            self.assertEqual(run(pool.address, "drain", name, "--cancel")[0], 0)
            self.assertEqual(run(pool.address, "get", "k")[0], 0)
            with Terminal(pool.address, "drain", name) as terminal:
                terminal.read_until(rb"Ctrl-C cancels")
                terminal.type(b"\x03")
                status, drawn = terminal.end()
            self.assertEqual(status, 1, drawn)
            self.assertRegex(drawn, rb"\r\x1b\[Kcancelled: new data is placed there again\r\n$")
            self.assertEqual(self.segments(pool)[name]["state"], "ok")
            status, out, _ = run(pool.address, "drain", name)
            self.assertEqual((status, b"\x1b" in out, b"Ctrl-C" in out), (0, False, False))

    def test_top_is_drawn_anew_on_a_terminal(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            with Terminal(pool.address, "top", "--count=3", "--interval=20ms") as terminal:
                status, drawn = terminal.end()
            self.assertEqual(status, 0, drawn)
            pages = drawn.split(b"\x1b[H\x1b[J")
            self.assertEqual((pages[0], len(pages)), (b"", 4))
            for page in pages[1:]:
                self.assertRegex(page, rb"^mooncake_master .*; Ctrl-C ends\r\n\r\n +HITS +GETS/S")
                self.assertRegex(page, rb"\x1b\[32mok\x1b\[0m")
                plain = re.sub(rb"\x1b\[[0-9]*m", b"", page)
                self.assertLessEqual(max(map(len, plain.split(b"\r\n"))), 100)
            with Terminal(pool.address, "top", "--interval=20ms") as terminal:
                terminal.read_until(rb"(?s)Ctrl-C ends.*Ctrl-C ends")
                terminal.type(b"\x03")
                self.assertEqual(terminal.end()[0], -signal.SIGINT)

    def test_a_store_that_does_not_exist(self):
        with Pool(PROGRAMS) as pool:
            status, _, err = run(pool.address, "drain", "nobody:1")
            self.assertEqual(status, 1)
            self.assertIn("mooncakectl stores", err)


if __name__ == "__main__":
    unittest.main()
