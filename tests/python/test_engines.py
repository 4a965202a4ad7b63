"""Calls shaped like those of SGLang, LMCache and vLLM, with smaller objects."""

import asyncio
import ctypes
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import hicache_rank
from rig import PROGRAMS, Memory, PoolTest, open_store

from pool import Pool, die_with_parent

from mooncake.store import ReplicateConfig

PAGE = 64 << 10


class Engines(PoolTest):
    """One engine a test."""

    segments = ("128MiB",)

    def run_ranks(self, layout, look=None):
        """Two ranks as processes, four threads each: warm up, exist, set, get, @look, clear."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hicache_rank.py")
        ranks = [subprocess.Popen(
            [sys.executable, "-B", script, self.pool.address, str(rank), layout],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent) for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.wait)
            self.addCleanup(rank.kill)
            self.addCleanup(rank.stdout.close)
            self.addCleanup(rank.stdin.close)
        self.assertEqual([rank.stdout.readline() for rank in ranks], ["ok\n"] * 2)
        if look is not None:
            look()
        for rank in ranks:
            rank.stdin.close()
        self.assertEqual([rank.wait(100) for rank in ranks], [0, 0])

    def test_sglang_hicache_with_k_and_v_apart(self):
        """Each rank has objects of its own. SGLang looks for segments before it begins."""
        with urllib.request.urlopen(f"http://{self.pool.metrics_address}/get_all_segments",
                                    timeout=30) as answer:
            self.assertTrue(answer.read().strip())
        self.run_ranks("mha", lambda: self.check_pages(hicache_rank.names_of("mha", 0, 3) +
                                                       hicache_rank.names_of("mha", 1, 0)))

    def test_sglang_hicache_with_mla(self):
        """Rank 0 writes, both read; there is one object a page."""
        self.run_ranks("mla", lambda: self.check_pages(hicache_rank.names_of("mla", 1, 2)))

    def test_sglang_hicache_with_split_heads(self):
        """Two ranks write four groups of heads; each of four ranks would find its own."""
        def look():
            for rank in range(4):
                keys = [f"split-1-{page:032x}_{rank}_{kind}" for page in range(hicache_rank.PAGES)
                        for kind in "kv"]
                self.check_pages(keys)

        self.run_ranks("split", look)

    def check_pages(self, keys):
        """All of them are there, each with its own value."""
        memory = Memory(len(keys) * hicache_rank.PAGE)
        sizes = [hicache_rank.PAGE] * len(keys)
        self.assertEqual(self.store.batch_is_exist(keys), [1] * len(keys))
        self.assertEqual(self.store.batch_get_into(
            keys, [memory.ptr + i * hicache_rank.PAGE for i in range(len(keys))], sizes), sizes)
        self.assertEqual(bytes(memory), b"".join(hicache_rank.value_of(key) for key in keys))

    def test_lmcache(self):
        """Chunks of a 28-byte header and a body, put on one thread, read in batches on another that
        gives up after a second and takes that for a miss."""
        config = ReplicateConfig()
        config.prefer_alloc_in_same_node = True
        bodies = [bytes([i]) * (300 << 10) for i in range(16)]
        keys = [f"model@8@0@{i:x}@half" for i in range(16)]
        for i, (key, body) in enumerate(zip(keys, bodies)):
            header = struct.pack("<7I", i, len(body), 1, 2, 3, 4, 5)
            self.assertEqual(self.store.put_parts(key, header, memoryview(body), config=config), 0)
        self.assertTrue(self.store.is_exist(keys[0]))
        self.assertFalse(self.store.is_exist("model@8@0@none@half"))

        async def read(timeout):
            loop = asyncio.get_running_loop()
            return await asyncio.wait_for(
                loop.run_in_executor(None, self.store.batch_get_buffer, keys + ["none"]), timeout)

        handles = asyncio.run(read(30))  # nothing hangs; a busy machine may be slow
        self.assertIsNone(handles.pop())
        for i, handle in enumerate(handles):
            view = memoryview(handle).cast("B")
            self.assertEqual(struct.unpack("<7I", view[:28])[:2], (i, 300 << 10))
            self.assertEqual(view[28:], bodies[i])
        self.assertEqual(self.store.batch_get_buffer(["none"]), [None])
        self.assertEqual(self.store.remove(keys[0], True), 0)

    def test_lmcache_gives_up_after_a_second(self):
        """The store with the chunks does not answer: the deadline passes, the engine goes on, and
        the call that was left behind does no harm."""
        with Pool(PROGRAMS) as pool:
            frozen = pool.add_store("64MiB", "--shm=off")
            frozen.ports()
            store = open_store(pool)
            self.addCleanup(store.close)
            self.assertEqual(store.put_parts("k", bytes(28), bytes(1 << 20)), 0)
            frozen.freeze()

            async def read():
                loop = asyncio.get_running_loop()
                late = loop.run_in_executor(None, store.batch_get_buffer, ["k"])
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.shield(late), 1)
                exists = await loop.run_in_executor(None, store.is_exist, "k")
                frozen.wake()
                return exists, await late

            exists, late = asyncio.run(read())
            self.assertEqual(exists, 1)  # the master knows, and answers beside the call that waits
            self.assertEqual(bytes(late[0]), bytes(28 + (1 << 20)))
            store.close()

    def test_vllm(self):
        """One sender and four receivers; 128 pieces a key, group ids in the config."""
        keys = [f"block/{i}" for i in range(32)]
        source, piece = Memory(os.urandom(32 * PAGE)), PAGE // 128
        self.assertEqual(self.store.register_buffer(source.ptr, source.size), 0)
        self.addCleanup(self.store.unregister_buffer, source.ptr)

        def pieces(base):
            """As layers lie in a cache: piece p of key k is at p * 32 + k."""
            return [[base + (p * 32 + k) * piece for p in range(128)] for k in range(32)]

        sizes = [[piece] * 128] * 32
        config = ReplicateConfig()
        config.group_ids = keys
        self.assertEqual(self.store.batch_is_exist(keys), [0] * 32)
        failures = []

        def receive():
            target, deadline = Memory(source.size), time.monotonic() + 60
            while self.store.batch_is_exist(keys) != [1] * 32 and time.monotonic() < deadline:
                pass
            codes = self.store.batch_get_into_multi_buffers(keys, pieces(target.ptr), sizes)
            if codes != [PAGE] * 32 or bytes(target) != bytes(source):
                failures.append(codes)

        threads = [threading.Thread(target=receive) for _ in range(4)]
        for thread in threads:
            thread.start()
        codes = self.store.batch_put_from_multi_buffers(keys, pieces(source.ptr), sizes, config)
        for thread in threads:
            thread.join()
        self.assertEqual(codes, [0] * 32)
        self.assertEqual(failures, [])
        # Only a pool that is full says -200; a miss says something else.
        large = [[source.ptr] * 128], [[source.size] * 128]
        self.assertEqual(self.store.batch_put_from_multi_buffers(["large"], *large, config), [-200])
        self.assertEqual(self.store.batch_get_into_multi_buffers(
            ["none"], [[source.ptr]], [[1]]), [-704])

    def test_sglang_embeddings(self):
        """One pinned pool, values of many sizes, one I/O thread fed by an asyncio loop."""
        memory = Memory(os.urandom(24 << 20))
        self.assertEqual(self.store.register_buffer(memory.ptr, memory.size), 0)
        self.addCleanup(self.store.unregister_buffer, memory.ptr)
        original = bytes(memory)
        lengths = [3500000, 1, 70000, 235001, 4096, 1 << 20, 999999]
        jobs, room = queue.Queue(), 12 << 20

        def io_thread():
            while True:
                job = jobs.get()
                if job is None:
                    return
                loop, future, call, args = job
                loop.call_soon_threadsafe(future.set_result, call(*args))

        async def ask(call, *args):
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            jobs.put((loop, future, call, args))
            return await asyncio.wait_for(future, 60)

        async def request(i, length):
            key, source = f"embedding-{i}", memory.ptr + 4096 * i
            target = memory.ptr + room + sum(lengths[:i])
            self.assertEqual(await ask(self.store.batch_is_exist, [key]), [0])
            self.assertEqual(await ask(self.store.batch_put_from, [key], [source], [length]), [0])
            size = await ask(self.store.get_size, key)
            self.assertEqual(size, length)
            self.assertEqual(await ask(self.store.batch_get_into, [key], [target], [size]), [size])
            self.assertEqual(ctypes.string_at(target, size), original[4096 * i:][:size])

        async def all_requests():
            await asyncio.gather(*(request(i, length) for i, length in enumerate(lengths)))

        thread = threading.Thread(target=io_thread)
        thread.start()
        try:
            asyncio.run(all_requests())
        finally:
            jobs.put(None)
            thread.join()
        self.assertEqual(ctypes.string_at(memory.ptr, room), original[:room])


if __name__ == "__main__":
    unittest.main(verbosity=1)
