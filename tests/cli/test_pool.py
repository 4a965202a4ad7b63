#!/usr/bin/env python3
"""mooncakectl on a real pool: each command in text and JSON, and what it says when things are wrong.

usage: test_pool.py DIRECTORY_OF_THE_PROGRAMS"""

import http.server
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from ctl import PROGRAMS, SEGMENT, OnePool, Terminal, run
from pool import HeldPort, Pool, die_with_parent
from wait import wait_for

KEY_MAX = 4096


class Objects(OnePool):
    def test_values_come_back_as_they_went(self):
        values = {"empty": b"", "one": b"\0", "bytes": bytes(range(256)),
                  "page": random.Random(1).randbytes(1310720)}
        with tempfile.TemporaryDirectory() as folder:
            for name, value in values.items():
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(value)
                self.ok("put", "file/" + name, path)
                self.ok("put", "stdin/" + name, "-", data=value)
            for name, value in values.items():
                self.assertEqual(self.ok("get", "file/" + name), value)
                self.assertEqual(self.ok("get", "stdin/" + name, "-"), value)
                path = os.path.join(folder, "copy")
                self.assertEqual(self.json("get", "file/" + name, path),
                                 {"key": "file/" + name, "len": len(value), "file": path})
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), value)
                self.assertEqual(self.json("key", "stdin/" + name)["len"], len(value))

    def test_a_value_of_100_mb(self):
        value = random.Random(2).randbytes(1 << 20) * 100
        self.ok("put", "large", "-", data=value)
        self.assertTrue(self.ok("get", "large") == value)
        self.ok("rm", "--force", "large")

    def test_put_keeps_what_is_there(self):
        self.ok("put", "kept", "-", data=b"first")
        status, out, err = self.ctl("put", "kept", "-", data=b"second")
        self.assertEqual((status, out), (1, b""))
        self.assertIn("kept", err)
        self.assertIn("[EEXIST -705]", err)
        self.assertEqual(self.ok("get", "kept"), b"first")
        self.ok("put", "kept", "-", "--upsert", data=b"second")
        self.assertEqual(self.ok("get", "kept"), b"second")

    def test_a_miss(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "untouched")
            for command in (["get", "missing"], ["get", "missing", path], ["key", "missing"]):
                status, out, err = self.ctl(*command)
                self.assertEqual((status, out), (1, b""))
                self.assertIn("missing", err)
                self.assertIn("[ENOENT -704]", err)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(self.json("get", "missing", "x", status=1)["error"]["code"], -704)
        self.assertEqual(self.ctl("rm", "missing")[:2], (1, b"no such key: missing\n"))

    def test_exist_and_rm(self):
        self.ok("put", "here", "-", data=b"x")
        self.assertEqual(self.ok("exist", "here"), b"yes here\n")
        self.assertEqual(self.ctl("exist", "here", "nowhere", "here")[:2],
                         (1, b"yes here\nno  nowhere\nyes here\n"))
        self.assertEqual(self.json("exist", "here", "nowhere", status=1)["keys"],
                         [{"key": "here", "exists": True}, {"key": "nowhere", "exists": False}])
        status, out, err = self.ctl("rm", "here")
        self.assertEqual((status, out), (4, b""), "exist granted a lease")
        self.assertIn("[ELEASED -706]", err)
        self.assertIn("--force", err)
        self.assertEqual(self.ok("rm", "--force", "here"), b"removed here\n")
        self.assertEqual(self.ctl("exist", "here")[0], 1)

    def test_bad_keys(self):
        longest = "k" * KEY_MAX
        self.ok("put", longest, "-", data=b"x")
        self.assertEqual(self.ok("get", longest), b"x")
        for key in ("", longest + "k"):
            for args in (["put", key, "-"], ["get", key], ["key", key], ["exist", key],
                         ["rm", key]):
                status, out, err = self.ctl(*args)
                self.assertEqual((status, out), (2, b""), (args[0], err))
                self.assertIn("[EBADKEY -400]", err)
                self.assertLess(len(err), 1000)

    def test_a_pool_without_stores(self):
        with Pool(PROGRAMS, []) as pool:
            status, out, err = run(pool.address, "put", "k", "-", data=b"x")
            self.assertEqual((status, out), (4, b""))
            self.assertIn("no store has joined the pool", err)
            self.assertIn("[ENOSPACE -200]", err)

    def test_fewer_copies_than_wished_are_told(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            status, out, err = run(pool.address, "put", "two", "-", "--replicas=2", data=b"x")
            self.assertEqual((status, out), (0, b"put two: 1 B\n"))
            self.assertIn("no room for as many copies as were wished (2)", err)
            self.assertEqual(run(pool.address, "put", "one", "-", data=b"x")[2], "")

    def test_a_value_that_can_never_fit(self):
        with Pool(PROGRAMS, ["16MiB", "16MiB"]) as pool:
            self.assertEqual(run(pool.address, "put", "small", "-", data=b"x")[0], 0)
            status, out, err = run(pool.address, "put", "huge", "-", data=b"y" * (33 << 20))
            self.assertEqual((status, out), (4, b""))
            self.assertIn("[ENOSPACE -200]", err)
            self.assertIn("mooncakectl why-full shows", err)
            self.assertEqual(run(pool.address, "get", "small")[:2], (0, b"x"))
            self.assertEqual(run(pool.address, "exist", "huge")[0], 1)
            fits = random.Random(3).randbytes(24 << 20)
            self.assertEqual(run(pool.address, "put", "wide", "-", data=fits)[0], 0)
            self.assertTrue(run(pool.address, "get", "wide")[1] == fits, "cut over two segments")


class Questions(OnePool):
    def test_key(self):
        self.ok("put", "two", "-", "--replicas=2", "--soft-pin", data=b"x" * 1000)
        key = self.json("key", "two")
        self.assertEqual((key["state"], key["len"], key["replicas"], key["pin"]),
                         ("readable", 1000, 2, "soft"))
        self.assertGreater(key["soft_pin_left_ms"], 0)
        self.assertEqual(key["lease_left_ms"], 0, "a put grants no lease")
        self.assertEqual(len({extent["segment"] for extent in key["extents"]}), 2)
        self.ok("get", "two")
        self.assertGreater(self.json("key", "two")["lease_left_ms"], 0)
        text = self.ok("key", "two").decode()
        self.assertIn("readable", text)
        self.assertIn("copies     2", text)

    def test_key_of_an_unfinished_put(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            # Its bytes cannot arrive: the store stands still, the put has started.
            pool.stores[0].freeze()
            env = {**os.environ, "MOONCAKE_MASTER": pool.address}
            with subprocess.Popen([os.path.join(PROGRAMS, "mooncakectl"), "--timeout=60s", "put",
                                   "half", "/bin/ls"], env=env, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, preexec_fn=die_with_parent) as put:
                def look():
                    seen = json.loads(run(pool.address, "key", "half", "--json")[1])
                    return seen if seen.get("state") == "writing" else None

                key = wait_for("the put has started", look)
                self.assertNotEqual(key["owner_client_id"], "0" * 16)
                text = run(pool.address, "key", "half")[1].decode()
                self.assertRegex(text, r"(?m)^owner +[0-9a-f]{16} ")
                self.assertRegex(text, r"(?m)^age +\d")
                put.kill()

    def test_bench(self):
        status, out, _ = self.ctl("bench", "io", "--help")
        self.assertEqual(status, 0)
        self.assertIn(b"mooncake_bench io", out)

    def test_rm_by_pattern(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            for key in ("a1", "a2", "b1"):
                self.assertEqual(run(pool.address, "put", key, "-")[0], 0)
            self.assertEqual(run(pool.address, "rm")[0], 2)
            self.assertEqual(run(pool.address, "rm", "--pattern=a", "--all")[0], 2)
            status, _, err = run(pool.address, "rm", "--pattern=[")
            self.assertEqual(status, 4)
            self.assertIn("at byte", err)
            answer = json.loads(run(pool.address, "rm", "--pattern=^a", "--json")[1])
            self.assertEqual((answer["removed"], answer["left"]), (2, 0))
            self.assertEqual(run(pool.address, "ls")[1], b"b1\n")
            self.assertEqual(run(pool.address, "put", "b2", "-")[0], 0)
            self.assertEqual(run(pool.address, "get", "b1")[0], 0)  # a lease
            self.assertEqual(run(pool.address, "rm", "--pattern=b")[1],
                             b"removed 1\nleft 1 that are leased: try again when their leases have "
                             b"ended, or use --force\n")
            self.assertEqual(run(pool.address, "rm", "--pattern=b", "--force")[1], b"removed 1\n")

    def test_space_and_books(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            self.assertEqual(run(pool.address, "put", "k", "-", data=b"x" * 1000)[0], 0)
            status, out, err = run(pool.address, "verify", "--json")
            self.assertEqual(status, 0, err)
            books = json.loads(out)
            self.assertTrue(books["agrees"])
            kinds = ("free", "evictable", "leased", "soft_pinned", "hard_pinned", "writing",
                     "parked", "unplaceable")
            self.assertEqual(sum(books[kind] for kind in kinds), books["capacity"])
            self.assertGreater(books["evictable"], 1000)
            self.assertIn(b"evictable", run(pool.address, "why-full")[1])

    def test_what_keeps_each_segment_full(self):
        with Pool(PROGRAMS, ["16MiB", "16MiB"], ["--default_kv_lease_ttl=10m"]) as pool:
            for key, options in (("leased", []), ("pinned", ["--hard-pin"]), ("plain", [])):
                self.assertEqual(run(pool.address, "put", key, "-", "--replicas=2", *options,
                                     data=b"x" * 100000)[0], 0)
            self.assertEqual(run(pool.address, "get", "leased")[0], 0)
            full = json.loads(run(pool.address, "why-full", "--json")[1])
            self.assertEqual((full["segments_total"], full["excluded"]), (2, []))
            for name in ("free", "evictable", "leased", "hard_pinned", "writing", "parked"):
                self.assertEqual(sum(s[name] for s in full["segments"]), full[name], name)
            self.assertTrue(550000 < full["next_lease_ms"] <= 676000, full["next_lease_ms"])
            self.assertEqual(full["next_lease_bytes"], full["segments"][0]["leased"])
            self.assertGreater(full["leased"], 200000)
            name = full["segments"][0]["name"]
            self.assertEqual(run(pool.address, "drain", name, "--timeout=100ms")[0], 1)
            full = json.loads(run(pool.address, "why-full", "--json")[1])
            self.assertEqual((full["segments_total"], full["excluded_total"]), (1, 1))
            self.assertEqual((full["excluded"][0]["name"], full["excluded"][0]["excluded"]),
                             (name, "drained"))
            self.assertRegex(run(pool.address, "why-full")[1].decode(),
                             rf"(?m)^{name} +15\.\d MiB +drained by an operator")

    def test_ls(self):
        keys = [b"plain", b"two words", b"back\\slash", b"line\nfeed", b"\xff\xfe"]
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            for key in keys:
                self.assertEqual(run(pool.address, "put", os.fsdecode(key), "-")[0], 0)
            text = run(pool.address, "ls")[1].decode()
            self.assertEqual(sorted(text.splitlines()),
                             sorted(["plain", "two words", r"back\\slash", r"line\x0Afeed",
                                     r"\xFF\xFE"]))
            raw = run(pool.address, "ls", "--null")[1]
            self.assertEqual(sorted(raw.split(b"\0")), sorted(keys + [b""]))
            listed = json.loads(run(pool.address, "ls", "--json")[1])
            self.assertEqual(listed["count"], len(keys))
            self.assertIn({"hex": "fffe"}, listed["keys"])
            self.assertEqual(run(pool.address, "ls", "^pl")[1], b"plain\n")
            self.assertEqual(run(pool.address, "ls", "(")[0], 4)
            self.assertEqual(json.loads(run(pool.address, "ls", "--limit=2", "--json")[1])["count"],
                             2)
            removed = json.loads(run(pool.address, "rm", "--all", "--json")[1])
            self.assertEqual(removed, {"removed": len(keys), "left": 0, "left_leased": 0,
                                       "left_writing": 0})
            self.assertEqual(run(pool.address, "ls")[:2], (0, b""))

    def test_status(self):
        self.ok("put", "status", "-", data=b"x" * 100000)
        before = self.json("status")
        self.assertEqual(before["capacity"], 2 * SEGMENT)
        self.assertEqual((before["segments"], before["stores"]), (2, 2))
        self.assertGreaterEqual(before["keys"], 1)
        self.assertGreaterEqual(before["used"], 100000)
        self.ok("get", "status")
        self.ctl("get", "nothing")
        after = self.json("status")
        self.assertEqual(after["hits"] - before["hits"], 1)
        self.assertEqual(after["misses"] - before["misses"], 1)
        self.assertEqual(after["clients"], 2, "the stores; a tool is no client")
        text = self.ok("status").decode()
        self.assertRegex(text, r"(?m)^capacity +512\.0 MiB$")
        self.assertRegex(text, r"(?m)^master +mooncake_master ")
        self.assertRegex(text, r"(?m)^core loop +\d+\.\d %  busy, last \d+.*; no io threads")

    def test_status_tells_who_is_busy(self):
        with Pool(PROGRAMS, ["16MiB"], ["--io_threads=2"]) as pool:
            def look():
                for _ in range(20):
                    run(pool.address, "ls")
                seen = json.loads(run(pool.address, "status", "--json")[1])
                return seen if seen["core_busy_permille"] and seen["io_busy_permille"] else None

            status = wait_for("both are busy", look)
            self.assertEqual(status["io_threads"], 2)
            self.assertLessEqual(status["core_busy_permille"], 1000)
            self.assertGreater(status["busy_span_ms"], 0)
            text = run(pool.address, "status")[1].decode()
            self.assertRegex(text, r"(?m)^core loop .*; 2 io threads, busiest \d+\.\d %$")
            with urllib.request.urlopen(f"http://{pool.metrics_address}/metrics/summary") as page:
                self.assertRegex(page.read().decode(),
                                 r"Threads: core=\d+\.\d% busy, io=2 \(busiest \d+\.\d%\)\n$")
            with urllib.request.urlopen(f"http://{pool.metrics_address}/metrics") as page:
                shares = re.findall(r'(?m)^mooncake_master_thread_busy_ratio\{thread="([^"]+)"\} '
                                    r"(\S+)$", page.read().decode())
            self.assertEqual([name for name, _ in shares], ["core", "io-0", "io-1"])
            self.assertTrue(all(0 <= float(share) <= 1 for _, share in shares), shares)

    def test_segments_clients_config(self):
        segments = self.json("segments")["segments"]
        self.assertEqual([s["len"] for s in segments], [SEGMENT, SEGMENT])
        self.assertEqual([s["state"] for s in segments], ["ok", "ok"])
        self.assertEqual(len({s["name"] for s in segments}), 2)
        self.assertEqual(len(self.ok("segments").splitlines()), 3)
        clients = self.json("clients")["clients"]
        self.assertEqual([c["role"] for c in clients], ["store", "store"])
        self.assertEqual({c["client_id"] for c in clients}, {s["client_id"] for s in segments})
        stores = self.json("stores")["stores"]
        self.assertEqual({s["client_id"] for s in stores}, {s["client_id"] for s in segments})
        for store in stores:
            self.assertRegex(store["addresses"], r"tcp://127\.0\.0\.1:\d+")
            self.assertRegex(store["program"], r"^mooncake_store \d+\.\d+")
            self.assertEqual((store["len"], store["state"], store["role"]),
                             (SEGMENT, "ok", "store"))
        self.assertEqual(len(self.ok("clients").splitlines()), 3)
        config = {o["name"]: o for o in self.json("config")["configuration"]}
        self.assertEqual((config["rpc_port"]["value"], config["rpc_port"]["source"]), ("0", "flag"))
        self.assertIn(b"rpc_port", self.ok("config"))


class OutOfReach(OnePool):
    def assert_unreachable(self, address, *words, options=()):
        status, out, err = run(address, *options, "status")
        self.assertEqual((status, out), (3, b""), err)
        for word in (*words, address, "cannot reach the pool", "MOONCAKE_MASTER"):
            self.assertIn(word, err)
        status, out, _ = run(address, *options, "status", "--json")
        self.assertEqual(status, 3)
        self.assertIn(json.loads(out)["error"]["name"], ("ERPC", "ETIMEDOUT"))

    def test_nobody_listens(self):
        with HeldPort() as nobody:
            self.assert_unreachable(nobody.address, "nothing listens there",
                                    "the master is down, or its RPC port is another one")

    def test_a_name_that_nobody_knows(self):
        self.assert_unreachable("no-such-host.invalid:50051", "cannot resolve the host name of",
                                "that host's name is not known here")

    def test_the_metrics_port(self):
        self.assert_unreachable(self.pool.metrics_address, "admin HTTP port of a master or store",
                                "rpc_port", "50051")

    def test_every_program_says_the_same_of_a_wrong_port(self):
        for address, words in (
                (self.pool.metrics_address, "that is the admin HTTP port of a master or store; the "
                                            "master's RPC port is another one: option rpc_port"),
                (f"127.0.0.1:{self.pool.stores[0].ports()['data_port']}",
                 "that is the data port of a store; the master's RPC port is another one")):
            self.assertIn(words, run(address, "status")[2])
            bench = subprocess.run([os.path.join(PROGRAMS, "mooncake_bench"), "io", "--master",
                                    address, "--no-limits"], capture_output=True, text=True,
                                   timeout=60, check=False)
            self.assertEqual((bench.returncode, bench.stdout), (1, ""), bench.stderr)
            self.assertIn(words, bench.stderr)
            log = self.log_of_a_store_until(address, b"store.joining")
            self.assertIn(words, log)
            self.assertNotIn("store.leaving", log, "nobody is to be told")
            self.assertIn("heard=no", log)

    @staticmethod
    def log_of_a_store_until(address, event):
        """Its log until that line, and of its end."""
        with subprocess.Popen([os.path.join(PROGRAMS, "mooncake_store"), "--segment=1MiB",
                               "--master=" + address, "--data_address=127.0.0.1:0"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              preexec_fn=die_with_parent) as store:
            log = b""
            for line in store.stdout:
                log += line
                if event in line:
                    break
            store.terminate()
            log += store.stdout.read()
            return log.decode()

    def test_an_http_server_that_is_not_ours(self):
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                self.assert_unreachable(f"127.0.0.1:{server.server_port}", "an HTTP server")
            finally:
                server.shutdown()

    def test_the_data_port_of_a_store(self):
        self.assert_unreachable(f"127.0.0.1:{self.pool.stores[0].ports()['data_port']}",
                                "the data port of a store")

    def test_a_master_of_another_version(self):
        def refuse(listener):
            while True:
                try:
                    peer = listener.accept()[0]
                except OSError:
                    return
                hello = peer.recv(4096)
                sentence = b"mooncake_master 9.0 speaks protocol 7 to 8: upgrade the older one"
                peer.sendall(hello[:5] + b"\x01" + hello[6:16] + struct.pack("<iI", -1012,
                                                                            len(sentence)) +
                             sentence)
                peer.close()

        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            threading.Thread(target=refuse, args=(listener,), daemon=True).start()
            self.assert_unreachable(f"127.0.0.1:{listener.getsockname()[1]}",
                                    "refused the connection", "speaks protocol 7 to 8")
            listener.shutdown(socket.SHUT_RDWR)

    def test_somebody_who_says_nothing(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            self.assert_unreachable(address, "accepted the connection but said nothing within 750 "
                                    "ms", "ss -ltnp", options=("--timeout=1s",))
            with Terminal(address, "status") as terminal:
                drawn = terminal.read_until(rb"in all")
                self.assertIn(f"waiting for the master at {address} (address from environment "
                              "MOONCAKE_MASTER), at most 3.0 s in all; Ctrl-C ends it".encode(),
                              drawn)
                self.assertNotIn(b"accepted", drawn, "while it waits, not at its end")
                status, drawn = terminal.end()
                self.assertEqual(status, 3)
                self.assertIn(b"said nothing within 3000 ms", drawn)

    def test_servers_of_text_are_shown(self):
        def greet(listener):
            while True:
                try:
                    peer = listener.accept()[0]
                except OSError:
                    return
                peers.append(peer)  # and kept: it waits for a command, as such servers do
                peer.sendall(b"220 mail.example.org ESMTP Postfix (Debian/GNU)\r\n")

        peers = []
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            threading.Thread(target=greet, args=(listener,), daemon=True).start()
            self.assert_unreachable(f"127.0.0.1:{listener.getsockname()[1]}",
                                    'that is no master, it begins with "220 mail.example.org ESMTP '
                                    'Postfix (Debian/GNU)"; the master\'s RPC port is another one',
                                    "50051 unless it was changed")
            listener.shutdown(socket.SHUT_RDWR)
        for peer in peers:
            peer.close()

    def test_wrong_usage_is_told_before_a_master_is_looked_for(self):
        """Nobody listens there, so whoever asks is told so instead."""
        holder = HeldPort()
        self.addCleanup(holder.close)
        nobody = holder.address
        longest = "k" * KEY_MAX
        for args in (["rm"], ["rm", "--all", "key"], ["rm", "--all", "--pattern=x"],
                     ["ls", "--json", "--null"], ["put", "key"], ["status", "word"], ["drain"],
                     ["exist"], ["check", "--force"], ["put", "", "-"], ["get", ""],
                     ["key", longest + "k"], ["why-miss", ""], ["exist", "key", ""],
                     ["rm", "key", longest + "k"]):
            status, _, err = run(nobody, *args)
            self.assertEqual(status, 2, (args[0], err))
            self.assertNotIn("cannot reach", err)
            self.assertLess(len(err), 1000)
        self.assertEqual(run(nobody, "exist", longest)[0], 3)

    def test_no_address(self):
        self.assertIn("--master: is empty", run("", "--master=", "status")[2])
        for address in ("127.0.0.1:notaport", "127.0.0.1:70000", ":", "http://host:1", "::1:50051"):
            status, out, err = run(address, "status")
            self.assertEqual((status, out), (2, b""), (address, err))
            self.assertIn("[EINVAL -600]", err)
            self.assertIn("(address from environment MOONCAKE_MASTER)", err)
            self.assertEqual(err.count(f'"{address}"'), 1, err)

    def test_a_store_that_died(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            self.assertEqual(run(pool.address, "put", "lost", "-", data=b"x")[0], 0)
            pool.stores[0].stop(signal.SIGKILL)
            status, out, err = run(pool.address, "--timeout=5s", "get", "lost")
            self.assertEqual(out, b"")
            self.assertIn(status, (1, 3), err)
            self.assertIn('cannot get "lost"', err)

    def test_a_frozen_master(self):
        with Pool(PROGRAMS) as pool:
            pool.master.freeze()
            started = time.monotonic()
            status, out, err = run(pool.address, "--timeout=100ms", "status")
            self.assertLess(time.monotonic() - started, 30)
            self.assertEqual((status, out), (3, b""), err)
            self.assertIn("said nothing within 75 ms", err)


class Paths(unittest.TestCase):
    def test_a_fallback_says_why(self):
        with Pool(PROGRAMS) as pool, tempfile.TemporaryDirectory() as folder:
            pool.add_store("16MiB", "--shm=any", "--shm_dir=" + folder).ports()
            names = os.listdir(folder)
            self.assertGreater(len(names), 0)
            for name in names:
                os.unlink(os.path.join(folder, name))
            peer = json.loads(run(pool.address, "peers", "--json")[1])["peers"][0]
            self.assertEqual(peer["transport"], "tcp", peer)
            self.assertEqual(peer["fallback_reason"],
                             "shared memory: connect: No such file or directory")


def fails_to_write_ports(pool):
    """A store whose port file is a folder; what it says."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([os.path.join(PROGRAMS, "mooncake_store"), "--segment=1MiB",
                               "--master=" + pool.address, "--data_address=127.0.0.1:0",
                               "--port_file=" + folder], capture_output=True, text=True, timeout=60,
                              check=False, preexec_fn=die_with_parent)


class ControlGroup:
    """A group below this process's own, with a limit on memory; made is False where that is not
    allowed."""

    def __init__(self, limit):
        self.made, self.folder = False, None
        try:
            mount, name = self.find()
            self.folder = os.path.join(mount, f"mooncake_test_{os.getpid()}")
            os.mkdir(self.folder)
            self.limit = os.path.join(self.folder, name)
            with open(self.limit, "w", encoding="ascii") as file:
                file.write(str(limit))
            self.made = True
        except OSError as error:
            self.why = str(error)

    @staticmethod
    def find():
        """The folder of this process's group, and the name of the limit's file."""
        with open("/proc/self/cgroup", encoding="ascii") as file:
            lines = [line.strip().split(":", 2) for line in file]
        for _, names, path in lines:
            if "memory" in names.split(","):
                return "/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes"
        for _, names, path in lines:
            if names == "":
                return "/sys/fs/cgroup" + path, "memory.max"
        raise OSError("this process is in none")

    def enter(self):
        """Runs in the child."""
        die_with_parent()
        with open(os.path.join(self.folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    def remove(self):
        if self.folder is not None and os.path.isdir(self.folder):
            os.rmdir(self.folder)


class Ends(unittest.TestCase):
    def test_a_store_does_not_lend_more_than_there_is(self):
        store = subprocess.run([os.path.join(PROGRAMS, "mooncake_store"), "--segment=4GiB",
                                "--segment=1000TiB", "--master=127.0.0.1:1"],
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(store.returncode, 2, store.stderr)
        self.assertIn("are more than this machine's memory", store.stderr)

    def test_a_store_does_not_lend_more_than_its_control_group_may_use(self):
        group = ControlGroup(64 << 20)
        self.addCleanup(group.remove)
        if not group.made:
            self.skipTest("no control group for memory can be made here: " + group.why)
        store = subprocess.run([os.path.join(PROGRAMS, "mooncake_store"), "--segment=48MiB",
                                "--segment=32MiB", "--master=127.0.0.1:1"], capture_output=True,
                               text=True, timeout=60, check=False, preexec_fn=group.enter)
        self.assertEqual(store.returncode, 2, store.stderr)
        self.assertIn(f"segment: 80.0MiB in all are more than this container or service may use, "
                      f"64.0MiB ({group.limit} says {64 << 20})", store.stderr)
        with Pool(PROGRAMS) as pool:
            lends_less = pool.add_store("48MiB", preexec_fn=group.enter)
            self.assertIn("data_port", lends_less.ports())

    def test_a_store_that_must_end_says_why_at_its_end(self):
        with Pool(PROGRAMS) as pool:
            store = fails_to_write_ports(pool)
            self.assertEqual(store.returncode, 2, store.stderr)
            self.assertRegex(store.stderr, r'(?m)^mooncake_store: port_file: "[^"]+" is there and no')

    def test_daemons_end_cleanly_when_told(self):
        with Pool(PROGRAMS, ["16MiB"]) as pool:
            for daemon in reversed(pool.daemons):
                self.assertEqual(daemon.stop(), 0, daemon.log_text())


if __name__ == "__main__":
    unittest.main()
