"""Calls shaped like those of SGLang, LMCache and vLLM, with smaller objects."""

import ctypes
import os
import subprocess
import sys
import threading
import unittest

from rig import Memory, PoolTest

from pool import die_with_parent

from mooncake.store import ReplicateConfig

PAGE = 64 << 10


class Engines(PoolTest):
    """One engine a test."""

    segments = ("128MiB",)

    def test_sglang_hicache(self):
        """Two ranks as processes, four threads each: warm up, exist, set, get, clear."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hicache_rank.py")
        ranks = [subprocess.Popen([sys.executable, "-B", script, self.pool.address, str(rank)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  preexec_fn=die_with_parent) for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.wait)
            self.addCleanup(rank.kill)
            self.addCleanup(rank.stdout.close)
            self.addCleanup(rank.stdin.close)
        self.assertEqual([rank.stdout.readline() for rank in ranks], ["ok\n"] * 2)
        for rank in ranks:
            rank.stdin.close()
        self.assertEqual([rank.wait(100) for rank in ranks], [0, 0])

    def test_lmcache(self):
        """Chunks as header and body; a batch is read into lent buffers."""
        config = ReplicateConfig()
        config.prefer_alloc_in_same_node = True
        bodies = [bytes([i]) * (300 << 10) for i in range(16)]
        keys = [f"model@8@0@{i:x}@half" for i in range(16)]
        for i, (key, body) in enumerate(zip(keys, bodies)):
            header = i.to_bytes(28, "little")
            self.assertEqual(self.store.put_parts(key, header, memoryview(body), config=config), 0)
        self.assertTrue(self.store.is_exist(keys[0]))
        self.assertFalse(self.store.is_exist("model@8@0@none@half"))
        for i, handle in enumerate(self.store.batch_get_buffer(keys + ["none"])[:-1]):
            view = memoryview(handle).cast("B")
            self.assertEqual(int.from_bytes(view[:28], "little"), i)
            self.assertEqual(view[28:], bodies[i])
        self.assertIsNone(self.store.batch_get_buffer(["none"])[0])

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
            target = Memory(source.size)
            while self.store.batch_is_exist(keys) != [1] * 32:
                pass
            codes = self.store.batch_get_into_multi_buffers(keys, pieces(target.ptr), sizes)
            if codes != [PAGE] * 32 or bytes(target) != bytes(source):
                failures.append(codes)

        threads = [threading.Thread(target=receive) for _ in range(4)]
        for thread in threads:
            thread.start()
        codes = self.store.batch_put_from_multi_buffers(keys, pieces(source.ptr), sizes, config)
        for thread in threads:
            if codes == [0] * 32:
                thread.join()
        self.assertEqual(codes, [0] * 32)
        self.assertEqual(failures, [])

    def test_embeddings(self):
        """Values of several sizes in one registered pool of memory."""
        memory = Memory(os.urandom(8 << 20))
        self.assertEqual(self.store.register_buffer(memory.ptr, memory.size), 0)
        self.addCleanup(self.store.unregister_buffer, memory.ptr)
        lengths = [3500000, 1, 70000]
        self.assertEqual(self.store.batch_put_from(
            ["e0", "e1", "e2"], [memory.ptr + 16 * i for i in range(3)], lengths), [0] * 3)
        room = memory.ptr + (4 << 20)
        self.assertEqual(self.store.batch_get_into(["e0"], [room], [4 << 20]), [lengths[0]])
        self.assertEqual(ctypes.string_at(room, lengths[0]), bytes(memory)[:lengths[0]])


if __name__ == "__main__":
    unittest.main(verbosity=1)
