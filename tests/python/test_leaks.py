"""Nothing is left behind: references, memory, threads, descriptors."""

import gc
import os
import sys
import tracemalloc
import unittest

from rig import Memory, PoolTest, await_no_more, census, open_store

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

CYCLES = 200
ROUNDS = 10
SMALLEST_OBJECT = 32  # one of these left behind in each round is found


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Leaks(PoolTest):
    """Counts before and after."""

    def all_calls(self, store, a):
        """Each call in its success and its failures; exceptions are part of it."""
        ptrs, sizes = a["ptrs"], a["sizes"]
        return [
            lambda: store.put(a["key"], a["value"], a["config"]),
            lambda: store.put(a["key"], a["value"], a["bad_config"]),
            lambda: store.put(a["key"], a["key"]),
            lambda: store.put(a["key"], a["value"], other=a["config"]),
            lambda: store.upsert(a["key"], a["value"]),
            lambda: store.put_parts(a["key"], a["value"], a["value"], config=a["config"]),
            lambda: store.put_parts(a["key"], a["value"], a["key"]),
            lambda: store.put_batch(a["keys"], [a["value"], a["value"]], a["config"]),
            lambda: store.put_batch(a["keys"], [a["value"], a["key"]]),
            lambda: store.put_from(a["key"], ptrs[0], sizes[0], a["config"]),
            lambda: store.get(a["key"]),
            lambda: store.get_buffer(a["key"]),
            lambda: bytes(store.get_buffer(a["key"])),
            lambda: store.get_batch(a["keys"]),
            lambda: store.batch_get_buffer(a["keys"]),
            lambda: store.get_into(a["key"], ptrs[0], sizes[0]),
            lambda: store.get_into(a["key"], a["key"], sizes[0]),
            lambda: store.get_size(a["key"]),
            lambda: store.is_exist(a["key"]),
            lambda: store.batch_is_exist(a["keys"]),
            lambda: store.batch_is_exist(a["ptrs"]),
            lambda: store.batch_put_from(a["keys"], ptrs, sizes, a["config"]),
            lambda: store.batch_put_from(a["keys"], ptrs, sizes, a["bad_config"]),
            lambda: store.batch_get_into(a["keys"], ptrs, sizes),
            lambda: store.batch_get_into(a["keys"], ptrs, a["keys"]),
            lambda: store.batch_get_into(a["keys"], ptrs, sizes[:1]),
            lambda: store.batch_put_from_multi_buffers(a["keys"], [ptrs, ptrs], [sizes, sizes]),
            lambda: store.batch_get_into_multi_buffers(a["keys"], [ptrs, ptrs], [sizes, sizes]),
            lambda: store.batch_get_into_multi_buffers(a["keys"], [ptrs, ptrs], [sizes, a["keys"]]),
            lambda: store.batch_get_into_multi_buffers(a["keys"], [ptrs, ptrs], [sizes]),
            lambda: store.get_replica_desc(a["key"]),
            lambda: store.get_into_ranges(ptrs, [a["keys"]] * 2, [[[0]] * 2] * 2, [[[0]] * 2] * 2,
                                          [[[1]] * 2] * 2),
            lambda: store.remove_by_regex(a["key"]),
            lambda: store.batch_remove(a["keys"], True),
            lambda: store.remove(a["key"], True),
        ]

    def check_calls(self, store):
        memory = Memory(2048)
        bad = ReplicateConfig()
        bad.preferred_segments = [3]
        a = {"key": "key of the leak test", "keys": ["key one", "key two"], "value": bytes(1000),
             "config": ReplicateConfig(), "bad_config": bad, "ptrs": [memory.ptr, memory.ptr + 1024],
             "sizes": [1024, 1024]}
        watched = list(a.values()) + a["keys"] + a["ptrs"]
        calls = self.all_calls(store, a)

        def run(rounds):
            for _ in range(rounds):
                for call in calls:
                    try:
                        call()
                    except TypeError:
                        pass

        run(3)
        gc.collect()
        before = [sys.getrefcount(thing) for thing in watched]
        self.assertLess(min(self.growth(run) for _ in range(4)), ROUNDS * SMALLEST_OBJECT)
        self.assertEqual([sys.getrefcount(thing) for thing in watched], before)

    @staticmethod
    def growth(run):
        """Bytes that some rounds leave behind. What grows for once is no leak."""
        gc.collect()
        tracemalloc.start()
        run(2)
        first = tracemalloc.get_traced_memory()[0]
        run(ROUNDS)
        gc.collect()
        last = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return last - first

    def test_calls_leave_nothing_behind(self):
        self.check_calls(self.store)

    def test_calls_on_a_closed_store_leave_nothing_behind(self):
        self.check_calls(MooncakeDistributedStore())

    def test_large_values_are_freed(self):
        self.store.put("k", bytes(8 << 20))
        self.store.get("k")
        begin = resident_bytes()
        for _ in range(30):
            self.store.get("k")
            self.store.get_buffer("k")
            self.store.get_batch(["k", "no"])
        self.assertLess(resident_bytes() - begin, 48 << 20)

    def test_setup_and_close_leave_nothing_behind(self):
        value, host = bytes(1000), "".join(["local", "host"])
        watched = [value, host, MooncakeDistributedStore]
        references = []

        def cycle():
            store = open_store(self.pool, 1 << 20, host)
            store.put("k", value)
            view = memoryview(store.get_buffer("k"))
            references.append(sys.getrefcount(store))
            store.close()
            del view

        for _ in range(10):
            cycle()
        gc.collect()
        begin, counts = resident_bytes(), census()
        before = [sys.getrefcount(thing) for thing in watched]
        for _ in range(CYCLES):
            cycle()
        gc.collect()
        grown = resident_bytes() - begin
        print(f"{CYCLES} cycles: {grown >> 10} KiB more")
        await_no_more(counts)
        self.assertLess(grown, 12 << 20)
        self.assertEqual([sys.getrefcount(thing) for thing in watched], before)
        self.assertEqual(set(references), {references[0]})


if __name__ == "__main__":
    unittest.main(verbosity=1)
