"""Many threads on one store; who waits does not stop the others; long lists convert quickly."""

import os
import threading
import time
import unittest

from rig import PROGRAMS, Memory, PoolTest, open_store

from pool import Pool

from mooncake.store import MooncakeDistributedStore

MIB = 1 << 20
SLOW = 10 if "LD_PRELOAD" in os.environ else 1  # a sanitizer
GAP_SECONDS_MAX = 0.2 * SLOW
TRIES = 4  # the machine may be busy with others; a lock that is held is held each time


class Heartbeat:
    """A thread that wants to run each 10 ms, and notes when it did."""

    def __enter__(self):
        self.beats = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        while not self._stop.wait(0.01):
            self.beats.append(time.monotonic())

    def during(self, call):
        """The longest that it had to wait while @call ran, and how long that took."""
        begin = time.monotonic()
        call()
        end = time.monotonic()
        times = [begin, *(beat for beat in self.beats if begin < beat < end), end]
        return max(after - before for before, after in zip(times, times[1:])), end - begin

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


class Threads(PoolTest):
    """Calls at the same time."""

    def test_eight_threads_put_get_and_remove(self):
        failures = []

        def work(number):
            target = Memory(MIB)
            for round_ in range(6):
                key = f"thread {number} round {round_}"
                value = bytes([number * 16 + round_]) * MIB
                steps = (self.store.put(key, value), self.store.get_into(key, target.ptr, MIB),
                         bytes(target) == value, self.store.get(key) == value,
                         self.store.remove(key, True), self.store.get(key))
                if steps != (0, MIB, True, True, 0, b""):
                    failures.append((key, steps))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_one_of_two_writers_wins_and_both_succeed(self):
        values = {bytes([i]) * MIB for i in range(4)}
        for round_ in range(5):
            key, codes = f"race {round_}", []
            threads = [threading.Thread(target=lambda v=v: codes.append(self.store.put(key, v)))
                       for v in values]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(codes, [0] * 4)
            self.assertIn(self.store.get(key), values)

    def test_close_while_others_call(self):
        store = open_store(self.pool, MIB)
        begun, answers = threading.Barrier(5), []

        def work():
            begun.wait()
            while True:
                code = store.put("k", b"v")
                store.get_buffer("k")
                store.batch_is_exist(["k"])
                if code != 0:
                    answers.append(code)
                    return

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        closers = [threading.Thread(target=store.close) for _ in range(2)]
        for thread in closers + threads:
            if thread in closers:
                thread.start()
        for thread in closers + threads:
            thread.join()
        self.assertEqual(answers, [-600] * 4)

    def test_two_setups_at_once_give_one_client(self):
        for _ in range(3):
            store, codes = MooncakeDistributedStore(), []
            threads = [threading.Thread(target=lambda: codes.append(store.setup(
                "localhost", "", 0, 0, "tcp", "", self.pool.address))) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(codes.count(0), 1, codes)
            self.assertEqual(store.put("k", b"v"), 0)
            store.close()

    def test_a_long_list_of_pointers_converts_quickly(self):
        """2,048 keys of 128 pieces each, to a store that is closed: conversion alone."""
        store = MooncakeDistributedStore()
        keys = [f"key {i}" for i in range(2048)]
        pointers = [[(1 << 40) + i * 8192 + k for k in range(128)] for i in range(2048)]
        sizes = [[8192] * 128 for _ in keys]
        best = float("inf")
        for _ in range(5):
            begin = time.thread_time()
            codes = store.batch_get_into_multi_buffers(keys, pointers, sizes)
            best = min(best, time.thread_time() - begin)
        self.assertEqual(codes, [-600] * 2048)
        print(f"262,144 pointers and sizes: {best * 1e3:.1f} ms")
        self.assertLess(best, 0.3 * SLOW)


class Heartbeats(unittest.TestCase):
    """The interpreter lock is free in everything that can wait."""

    def assert_beats_during(self, *calls):
        """Who keeps the lock through a call stops the heart for as long as that takes. A machine
        that is busy only makes both slower."""
        pauses = []
        for _ in range(TRIES):
            with Heartbeat() as heartbeat:
                pauses.append([heartbeat.during(call) for call in calls])
            if all(gap <= max(GAP_SECONDS_MAX, took / 2) for gap, took in pauses[-1]):
                return
        self.fail(f"the heart stood still, of so many seconds of each call: {pauses}")

    def setUp(self):
        self.pool = Pool(PROGRAMS)
        self.addCleanup(self.pool.close)
        self.frozen = self.pool.add_store("600MiB", "--shm=off")
        self.frozen.ports()
        self.store = open_store(self.pool)
        self.addCleanup(self.store.close)

    def test_moving_256_mib(self):
        value = bytes(256 // SLOW * MIB)

        self.assert_beats_during(
            lambda: self.assertEqual(self.store.put("large", value), 0),
            lambda: self.assertEqual(len(self.store.get("large")), len(value)),
            lambda: self.assertEqual(len(self.store.get_batch(["large"])[0]), len(value)),
            lambda: self.assertEqual(self.store.remove("large", True), 0))

    def test_setup_and_close_of_1_gib(self):
        stores = []
        self.assert_beats_during(lambda: stores.append(open_store(self.pool, 1024 * MIB)),
                                 lambda: stores.pop().close())

    def test_a_frozen_store(self):
        self.assertEqual(self.store.put("k", b"v" * MIB), 0)
        for call in (lambda: self.store.get("k"), lambda: self.store.get_batch(["k"])[0],
                     lambda: bytes(self.store.get_buffer("k"))):
            def wait():
                values = []
                self.frozen.freeze()
                thread = threading.Thread(target=lambda: values.append(call()))
                thread.start()
                thread.join(0.7)
                waited = thread.is_alive()
                self.frozen.wake()
                thread.join()
                self.assertTrue(waited, "the call did not wait for the frozen store")
                self.assertEqual(values, [b"v" * MIB])

            self.assert_beats_during(wait)


if __name__ == "__main__":
    unittest.main(verbosity=1)
