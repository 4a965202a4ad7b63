"""Thin clients: setup_dummy() at a mooncake_client, the memory they share, and every way to end."""

import ctypes
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

from rig import PROGRAMS, Memory, await_no_more, census, open_store

from pool import HeldPort, Pool, die_with_parent
from wait import wait_for

from mooncake.store import MooncakeDistributedStore

MiB = 1 << 20
CYCLES = 50

# Puts from the pool and reads the other's into it, then holds the pool until it is told to end.
THIN = """
import ctypes, sys, threading
from mooncake.store import MooncakeDistributedStore
server, me, other = sys.argv[1:]
store = MooncakeDistributedStore()
assert store.setup_dummy(64 << 20, 0, server) == 0
faults = []
def value(rank, number): return (rank + str(number)).encode() * 100000
def work(number, step):
    try:
        data = value(me if step == "put" else other, number)
        ptr = store.alloc_from_mem_pool(1 << 20)
        assert ptr != 0
        if step == "put":
            ctypes.memmove(ptr, data, len(data))
            assert store.put_from(f"{me}/{number}", ptr, len(data)) == 0
        else:
            assert store.get_into(f"{other}/{number}", ptr, 1 << 20) == len(data)
            assert ctypes.string_at(ptr, len(data)) == data
    except BaseException as error:
        faults.append(error)
        raise
for step in ("put", "get"):
    threads = [threading.Thread(target=work, args=(i, step)) for i in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not faults
    print(step, flush=True)
    sys.stdin.readline()
"""

REFUSED = """
import os, sys
from mooncake.store import MooncakeDistributedStore
os.setgid(65534); os.setuid(65534)
store = MooncakeDistributedStore()
assert store.setup_dummy(1 << 20, 0, sys.argv[1]) == -1
assert store.setup_dummy(0, 0, sys.argv[1]) == 0
"""


class Server:
    """A mooncake_client, or a mooncake_store that serves thin clients."""

    def __init__(self, pool, program="mooncake_client", *options, lends="128MB"):
        flags = {
            "mooncake_client": ["--master_server_address=" + pool.address, "--port=0",
                                "--host=127.0.0.1", "--local_buffer_size=16 MB", "--protocol=tcp",
                                "--metadata_server=P2PHANDSHAKE",
                                "--global_segment_size=" + lends],
            "mooncake_store": ["--master=" + pool.address, "--serve-clients", "--serve-port=0",
                               "--grace=0", "--advertise_host=127.0.0.1"],
        }[program]
        self.daemon = pool._start(f"server{len(pool.daemons)}",
                                  [os.path.join(PROGRAMS, program), *flags, "--admin_port=0",
                                   "--shm_dir=" + pool.scratch.name, *options])
        self.ports = self.daemon.ports()
        self.pid = self.daemon.process.pid
        self.address = f"127.0.0.1:{self.ports['serve_port']}"

    def pools(self):
        """Pools and their bytes, as its metrics tell."""
        url = f"http://127.0.0.1:{self.ports['admin_port']}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            page = answer.read().decode()
        return tuple(int(float(re.search(rf"(?m)^mooncake_store_client_{name} (\S+)$", page)[1]))
                     for name in ("pools", "pool_bytes"))

    def await_pools(self, wanted):
        wait_for(f"pools are {wanted}", lambda: self.pools() == wanted,
                 tell=lambda: str(self.pools()))


def thin(server, pool_size=4 * MiB):
    store = MooncakeDistributedStore()
    code = store.setup_dummy(pool_size, 16 * MiB, server.address)
    if code != 0:
        raise AssertionError(f"setup_dummy returns {code}")
    return store


class Thin(unittest.TestCase):
    """One master; serving processes as needed."""

    def setUp(self):
        self.pool = Pool(PROGRAMS)
        self.addCleanup(self.pool.close)

    def serve(self, *args):
        return Server(self.pool, *args)

    def open_thin(self, server, pool_size=4 * MiB):
        store = thin(server, pool_size)
        self.addCleanup(store.close)
        return store

    def failure_of(self, size, address):
        """What setup_dummy() says on stderr."""
        code = ("import sys; from mooncake.store import MooncakeDistributedStore as S\n"
                f"sys.exit(S().setup_dummy({size}, 0, {address!r}) != -1)")
        done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True,
                              check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def spawn(self, code, *args):
        process = subprocess.Popen([sys.executable, "-c", code, *args], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_thin_and_ordinary_clients_read_each_other(self):
        server = self.serve()
        store = self.open_thin(server)
        other = open_store(self.pool)
        self.addCleanup(other.close)
        data = os.urandom(MiB)
        shared = store.alloc_from_mem_pool(MiB)
        ctypes.memmove(shared, data, MiB)
        self.assertEqual(store.put_from("pool", shared, MiB), 0)
        own = Memory(data)
        self.assertEqual(store.put_from("own", own.ptr, MiB), 0)
        self.assertEqual(other.get("pool"), data)
        self.assertEqual(other.get("own"), data)
        self.assertEqual(other.put("theirs", data[::-1]), 0)
        self.assertEqual(store.get_into("theirs", shared, MiB), MiB)
        self.assertEqual(ctypes.string_at(shared, MiB), data[::-1])
        self.assertEqual(store.get_into("theirs", own.ptr, MiB), MiB)
        self.assertEqual(bytes(own), data[::-1])

    def test_codes_are_those_of_an_ordinary_client(self):
        store = self.open_thin(self.serve())
        ptr = store.alloc_from_mem_pool(2 * MiB)
        self.assertEqual(store.batch_put_from(["a", "b"], [ptr, ptr + MiB], [MiB, MiB]), [0, 0])
        self.assertEqual(store.put("a", b"other"), 0)
        self.assertEqual(store.batch_get_into(["a", "no"], [ptr, ptr + MiB], [MiB, MiB]),
                         [MiB, -704])
        self.assertEqual(store.get_into("a", ptr, 10), -600)
        self.assertEqual(store.batch_is_exist(["a", "no"]), [1, 0])
        self.assertEqual(store.get_size("b"), MiB)
        self.assertEqual(store.get_into_ranges([ptr], [["a"]], [[[0]]], [[[10]]], [[[20]]]), [[[20]]])
        big = Memory(129 * MiB)
        self.assertEqual(store.put_from("big", big.ptr, big.size), -200)
        self.assertEqual(store.remove("b", True), 0)
        self.assertEqual(store.get_size("b"), -704)
        self.assertEqual(store.remove_all(True), 1)
        self.assertEqual(store.health_check(), 0)
        self.assertEqual(store.register_buffer(ptr, MiB), 0)
        self.assertEqual(store.unregister_buffer(ptr), 0)

    def test_the_pool_is_handed_out_until_it_is_used_up(self):
        server = self.serve()
        store = self.open_thin(server, MiB)
        self.assertEqual(server.pools(), (1, MiB))
        ptrs = [store.alloc_from_mem_pool(256 << 10) for _ in range(4)]
        self.assertEqual(len({*ptrs, 0}), 5)
        self.assertEqual([ptr % 4096 for ptr in ptrs], [0] * 4)
        self.assertEqual(store.alloc_from_mem_pool(1), 0)
        self.assertEqual(store.alloc_from_mem_pool(0), 0)
        for number, ptr in enumerate(ptrs):
            ctypes.memset(ptr, number + 1, 256 << 10)
        self.assertEqual([ctypes.string_at(ptr, 1)[0] for ptr in ptrs], [1, 2, 3, 4])
        store.close()
        server.await_pools((0, 0))
        self.assertEqual(store.alloc_from_mem_pool(1), 0)
        with self.assertRaises(TypeError):
            store.alloc_from_mem_pool("1")
        with self.assertRaises(TypeError):
            store.setup_dummy("1", 0, server.address)
        self.assertEqual(MooncakeDistributedStore().alloc_from_mem_pool(1), 0)

    def test_the_server_limits_all_pools_together(self):
        server = self.serve("mooncake_client", "--pools_max=6MiB")
        first = self.open_thin(server, 4 * MiB)
        self.assertRegex(self.failure_of(4 * MiB, server.address), "pools_max")
        self.assertEqual(server.pools(), (1, 4 * MiB))
        self.assertRegex(self.failure_of(1 << 63, server.address), "pools_max")
        first.close()
        server.await_pools((0, 0))
        self.open_thin(server, 6 * MiB)

    def test_a_client_without_a_pool_has_none(self):
        store = self.open_thin(self.serve(), 0)
        self.assertEqual(store.alloc_from_mem_pool(1), 0)
        self.assertEqual(store.put("k", b"value"), 0)
        self.assertEqual(store.get("k"), b"value")

    def test_two_processes_of_eight_threads(self):
        server = self.serve("mooncake_store", "--segment=128MiB")
        ranks = [self.spawn(THIN, server.address, *pair) for pair in (("one", "two"),
                                                                      ("two", "one"))]
        for step in ("put", "get"):
            for rank in ranks:
                self.assertEqual(rank.stdout.readline().strip(), step)
            if step == "put":
                self.assertEqual(server.pools(), (2, 128 * MiB))
            for rank in ranks:
                rank.stdin.write("\n")
                rank.stdin.flush()
        self.assertEqual([rank.wait(30) for rank in ranks], [0, 0])
        server.await_pools((0, 0))

    def test_a_killed_client_frees_its_pool(self):
        server = self.serve()
        rank = self.spawn(THIN, server.address, "one", "two")
        self.assertEqual(rank.stdout.readline().strip(), "put")
        self.assertEqual(server.pools(), (1, 64 * MiB))
        rank.kill()
        rank.wait()
        server.await_pools((0, 0))
        store = self.open_thin(server)
        self.assertEqual(store.get("one/0"), b"one0" * 100000)

    def test_a_killed_server_takes_only_its_segment(self):
        """What lay there is a miss at once; what lies elsewhere, and the pool, stay."""
        server = self.serve()
        store = self.open_thin(server)
        ptr = store.alloc_from_mem_pool(MiB)
        ctypes.memset(ptr, 7, MiB)
        self.assertEqual(store.put_from("lost", ptr, MiB), 0)
        server.daemon.process.kill()
        server.daemon.process.wait()
        begin = time.monotonic()
        self.assertLess(store.get_into("lost", ptr, MiB), 0)
        self.assertLess(time.monotonic() - begin, 15)
        ctypes.memset(ptr, 8, MiB)
        self.pool.add_store("32MiB").ports()
        self.assertEqual(store.put_from("kept", ptr, MiB), 0)
        self.assertEqual(store.get("kept"), bytes([8]) * MiB)
        again = self.serve()
        store.close()
        self.assertEqual(store.setup_dummy(MiB, 0, again.address), 0)
        self.assertEqual(store.get("kept"), bytes([8]) * MiB)

    def test_a_server_that_leaves_lets_its_clients_go_on(self):
        self.pool.add_store("32MiB").ports()
        server = self.serve("mooncake_store")  # lends nothing, only serves
        store = self.open_thin(server)
        ptr = store.alloc_from_mem_pool(MiB)
        ctypes.memset(ptr, 9, MiB)
        self.assertEqual(server.daemon.stop(), 0)
        self.assertEqual(store.put_from("k", ptr, MiB), 0)
        self.assertEqual(store.get("k"), bytes([9]) * MiB)

    def test_wrong_addresses_are_told_apart(self):
        with HeldPort() as nobody:
            self.assertRegex(self.failure_of(0, nobody.address),
                             f"server {nobody.address}.*refused")
        self.assertRegex(self.failure_of(0, self.pool.address), "does not serve thin clients")
        self.assertRegex(self.failure_of(0, "127.0.0.1:port"), "write host:port")
        self.assertRegex(self.failure_of(1, self.serve().address), "pool: 1 bytes")

    @unittest.skipIf(os.geteuid() != 0, "skipped: needs root to become somebody else")
    def test_another_user_gets_no_memory(self):
        server = self.serve()
        os.chmod(self.pool.scratch.name, 0o711)
        done = subprocess.run([sys.executable, "-c", REFUSED, server.address], text=True,
                              stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Permission denied", done.stderr)
        server.await_pools((0, 0))

    def test_where_sharing_is_off_there_are_no_pools(self):
        server = self.serve("mooncake_client", "--shm=off")
        self.assertRegex(self.failure_of(MiB, server.address), "shares no memory")
        store = self.open_thin(server, 0)
        self.assertEqual(store.put("k", b"value"), 0)
        self.assertEqual(store.get("k"), b"value")

    def test_setup_and_close_leave_nothing_behind(self):
        server = self.serve()

        def cycle():
            store = thin(server)
            ctypes.memset(store.alloc_from_mem_pool(MiB), 1, MiB)
            store.put("k", b"value")
            store.close()

        for _ in range(5):
            cycle()
        server.await_pools((0, 0))
        here, there = census(), census(server.pid)
        for _ in range(CYCLES):
            cycle()
        server.await_pools((0, 0))
        await_no_more(here)
        await_no_more(there, server.pid)

    def test_nonsense_at_the_port_does_no_harm(self):
        server = self.serve()
        seed = random.randrange(1 << 32)
        print(f"seed of the nonsense: {seed}")
        for junk in (b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n",
                     random.Random(seed).randbytes(4096), b"\0" * 24):
            with socket.create_connection(("127.0.0.1", server.ports["serve_port"])) as peer:
                peer.settimeout(30)
                peer.sendall(junk)
                try:
                    while peer.recv(4096):
                        pass
                except ConnectionError:
                    pass
        self.assertEqual(self.open_thin(server).put("k", b"v"), 0)


class Flags(unittest.TestCase):
    """mooncake_client takes the flags that people have, and says so of those it has not."""

    def complaint(self, *flags):
        done = subprocess.run([os.path.join(PROGRAMS, "mooncake_client"), *flags], text=True,
                              stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr.splitlines()[-1]

    def test_what_is_not_there_stops_the_start(self):
        for flags, named in ((["--tenant_id=a"], "tenant_id"), (["--protocol=ib"], "protocol"),
                             (["--enable_offload=true"], "enable_offload"),
                             (["--global_segment_size=much"], "segment"),
                             (["--local_buffer_size=x"], "local_buffer_size"),
                             (["--threads=99"], "threads"), (["--port=70000"], "port"),
                             (["--pools_max=0"], "pools_max"), (["--shm=x"], "shm")):
            self.assertIn(named, self.complaint(*flags))

    def test_it_serves_without_a_segment(self):
        with Pool(PROGRAMS, ["32MiB"]) as pool:
            server = Server(pool, "mooncake_client", "--tenant_id=default", "--device_names=",
                            "-threads=2", lends="0")
            self.assertEqual(server.ports["data_port"], 0)
            store = thin(server)
            self.assertEqual(store.put("k", b"v"), 0)
            self.assertEqual(store.get("k"), b"v")
            store.close()
            self.assertEqual(server.daemon.stop(signal.SIGTERM), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
