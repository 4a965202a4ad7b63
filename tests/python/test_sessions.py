"""Values in ranges over several calls, and segments beside the first."""

import os
import threading
import time
import unittest

from rig import Memory, PoolTest, open_store

from wait import wait_for

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

INVALID, NO_SPACE, MISS, EXPIRED = -600, -200, -704, -707
MIB = 1 << 20


class PutSessions(PoolTest):
    """Start, write, end or revoke."""

    def write(self, key, memory, dst, size=None):
        return self.store.batch_put_from_multi_buffer_ranges(
            [key], [[memory.ptr]], [[memory.size if size is None else size]], [[dst]])

    def test_a_value_written_in_ranges_is_there_at_the_end_and_not_before(self):
        data = Memory(os.urandom(300))
        self.assertEqual(self.store.batch_put_session_start(["a", "b"], [300, 100]), [0, 0])
        for layer in (2, 0, 1):
            self.assertEqual(self.store.batch_put_from_multi_buffer_ranges(
                ["a", "b"], [[data.ptr + 100 * layer, data.ptr], [data.ptr]],
                [[60, 0], [100]], [[100 * layer, 5], [0]]), [60, 100])
            self.assertEqual(self.store.batch_put_from_multi_buffer_ranges(
                ["a"], [[data.ptr + 100 * layer + 60]], [[40]], [[100 * layer + 60]]), [40])
        self.assertEqual(self.store.batch_is_exist(["a", "b"]), [0, 0])
        self.assertEqual(self.store.batch_put_session_end(["a", "b"]), [0, 0])
        self.assertEqual(self.store.get("a"), bytes(data))
        self.assertEqual(self.store.get("b"), bytes(data)[:100])
        self.assertEqual(self.store.batch_put_session_end(["a"]), [INVALID])

    def test_wrong_ranges_and_keys(self):
        memory = Memory(100)
        self.assertEqual(self.store.batch_put_session_start(["k", "k", "", "z"], [100, 100, 1, 0]),
                         [0, INVALID, INVALID, INVALID])
        self.assertEqual(self.write("k", memory, 1), [INVALID])
        self.assertEqual(self.write("k", memory, -1), [INVALID])
        self.assertEqual(self.write("k", memory, 0, 101), [INVALID])
        self.assertEqual(self.write("k", memory, 0, -1), [INVALID])
        self.assertEqual(self.write("none", memory, 0), [INVALID])
        self.assertEqual(self.store.batch_put_from_multi_buffer_ranges(
            ["k"], [[memory.ptr]], [[1, 2]], [[0]]), [INVALID])
        self.assertEqual(self.store.batch_put_from_multi_buffer_ranges(["k"], [], [], []),
                         [INVALID])
        self.assertEqual(self.store.batch_put_session_start(["a"], []), [INVALID])
        self.assertRaises(TypeError, self.store.batch_put_session_start, [3], [3])
        self.assertEqual(self.store.batch_put_session_revoke(["k", "none"]), [0, INVALID])
        self.assertEqual(self.store.batch_put_session_end(["k"]), [INVALID])
        self.assertEqual(self.store.is_exist("k"), 0)

    def test_what_is_gathered_is_bounded(self):
        self.assertEqual(self.store.batch_put_session_start(["x", "y", "z"],
                                                            [1 << 50, 1 << 30, 1]),
                         [NO_SPACE, 0, NO_SPACE])
        self.assertEqual(self.store.batch_put_session_revoke(["y"]), [0])
        self.assertEqual(self.store.batch_put_session_start(["z"], [1]), [0])
        self.assertEqual(self.store.batch_put_session_revoke(["z"]), [0])

    def test_the_first_writer_wins_and_the_config_is_that_of_the_start(self):
        config, memory = ReplicateConfig(), Memory(b"mine")
        config.with_hard_pin = True
        self.store.put("k", b"first")
        self.assertEqual(self.store.batch_put_session_start(["k", "p"], [4, 4], config), [0, 0])
        config.replica_num = 100  # later changes do not count
        self.assertEqual(self.write("k", memory, 0) + self.write("p", memory, 0), [4, 4])
        self.assertEqual(self.store.batch_put_session_end(["k", "p"]), [0, 0])
        self.assertEqual((self.store.get("k"), self.store.get("p")), (b"first", b"mine"))


class GetSessions(PoolTest):
    """Start, read, end."""

    def test_ranges_of_values(self):
        value = os.urandom(1000)
        self.store.put("k", value)
        self.assertEqual(self.store.batch_get_session_start(["k", "none"]), [0, MISS])
        self.store.upsert("k", b"another")  # the session goes on with what it began with
        memory = Memory(1000)
        read = self.store.batch_get_into_multi_buffer_ranges
        self.assertEqual(read(["k", "none"], [[memory.ptr, memory.ptr + 10], [memory.ptr]],
                              [[10, 90], [1]], [[500, 0], [0]]), [100, EXPIRED])
        self.assertEqual(bytes(memory)[:100], value[500:510] + value[:90])
        for size, src in ((1001, 0), (1, 1000), (1, -1), (-1, 0)):
            self.assertEqual(read(["k"], [[memory.ptr]], [[size]], [[src]]), [INVALID])
        self.assertEqual(read(["k"], [[memory.ptr]], [[1]], []), [INVALID])
        self.assertEqual(self.store.batch_get_session_end(["k", "none"]), 0)
        self.assertEqual(read(["k"], [[memory.ptr]], [[1]], [[0]]), [EXPIRED])

    def test_two_threads_read_one_key(self):
        self.store.put("k", b"v" * MIB)
        failures = []

        def work():
            memory = Memory(MIB)
            for _ in range(20):
                codes = self.store.batch_get_session_start(["k"])
                lengths = self.store.batch_get_into_multi_buffer_ranges(
                    ["k"], [[memory.ptr]], [[MIB]], [[0]])
                self.store.batch_get_session_end(["k"])
                if (codes, lengths) != ([0], [MIB]) or bytes(memory) != b"v" * MIB:
                    failures.append((codes, lengths))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_calls_on_a_store_that_is_not_set_up(self):
        store = MooncakeDistributedStore()
        self.assertEqual(store.batch_put_session_start(["k"], [1]), [INVALID])
        self.assertEqual(store.batch_put_session_end(["k"]), [INVALID])
        self.assertEqual(store.batch_put_session_revoke(["k"]), [INVALID])
        self.assertEqual(store.batch_get_session_start(["k"]), [MISS])
        self.assertEqual(store.batch_get_session_end(["k"]), 0)
        other = open_store(self.pool)
        self.assertEqual(other.batch_put_session_start(["k"], [1]), [0])
        other.close()
        self.assertEqual(other.batch_put_session_end(["k"]), [INVALID])


class Segments(PoolTest):
    """Memory lent beside that of setup()."""

    segments = ()

    def test_a_segment_gives_space_until_it_is_taken_back(self):
        self.assertEqual(self.store.put("k", b"v"), NO_SPACE)
        mounted = self.store.allocate_and_mount_segment(16 * MIB)
        self.assertEqual((mounted["ret"], mounted["allocated_size"]), (0, 16 * MIB))
        self.assertEqual(len(mounted["segment_ids"]), 1)
        self.assertEqual(self.store.put("k", b"v"), 0)
        self.assertEqual(self.store.get_replica_desc("k")[0].get_memory_descriptor()
                         .buffer_descriptor.transport_endpoint, mounted["segment_ids"][0])
        self.assertEqual(self.store.unmount_and_free_segment(mounted["segment_ids"], 1), 0)
        self.assertEqual(self.store.is_exist("k"), 0)
        self.assertEqual(self.store.unmount_segment(mounted["segment_ids"]), -1)

    def mount(self, store, key):
        """A segment with one value; its names."""
        mounted = store.allocate_and_mount_segment(16 * MIB)
        self.assertEqual((mounted["ret"], store.put(key, b"v")), (0, 0))
        return mounted["segment_ids"]

    def unmount(self, store, names, seconds):
        """A thread that does it, and where its result will be."""
        codes = []
        thread = threading.Thread(
            target=lambda: codes.append(store.unmount_segment(names, seconds)))
        thread.start()

        def is_refused():
            code = self.store.put("more", b"v")
            self.store.remove("more", True)
            return code == NO_SPACE

        wait_for("nothing new is placed there", is_refused)
        return thread, codes

    def test_reads_go_on_for_the_grace_period(self):
        names = self.mount(self.store, "k")
        begin = time.monotonic()
        thread, codes = self.unmount(self.store, names, 1.5)
        while thread.is_alive() and time.monotonic() < begin + 1.2:
            value = self.store.get("k")
            self.assertIn((value, time.monotonic() < begin + 1.5), ((b"v", True), (b"", False),
                                                                    (b"v", False)))
        self.assertEqual(self.store.unmount_segment(names, 1), -1)  # it is under way, or done
        thread.join()
        self.assertGreaterEqual(time.monotonic() - begin, 1.5)
        self.assertEqual((codes, self.store.get("k")), ([0], b""))

    def test_several_segments_have_their_grace_at_once(self):
        names = [name for key in "kjihgf" for name in self.mount(self.store, key)]
        begin = time.monotonic()
        self.assertEqual(self.store.unmount_and_free_segment(names, 2), 0)
        seconds = time.monotonic() - begin
        self.assertTrue(2 <= seconds < 2 * len(names), seconds)  # one after another
        self.assertEqual(self.store.unmount_segment(names, -1), -1)

    def test_close_ends_a_grace_period(self):
        store = open_store(self.pool)
        thread, _ = self.unmount(store, self.mount(store, "k"), 3600)
        store.close()
        thread.join(60)
        self.assertFalse(thread.is_alive())
        self.assertEqual(self.store.get("k"), b"")

    def test_what_cannot_be_mounted(self):
        self.assertEqual(self.store.mount_segment("/dev/shm/x", MIB),
                         {"ret": -1012, "segment_ids": []})
        self.assertEqual(self.store.allocate_and_mount_segment(0)["ret"], INVALID)
        self.assertEqual(MooncakeDistributedStore().allocate_and_mount_segment(MIB)["ret"], INVALID)
        self.assertEqual(self.store.unmount_local_disk_segment(), 0)
        self.assertEqual(self.store.get_offload_rpc_read_count(), 0)

    def test_close_takes_all_segments_back(self):
        store = open_store(self.pool)
        self.assertEqual(store.allocate_and_mount_segment(16 * MIB)["ret"], 0)
        self.assertEqual(self.store.put("k", b"v"), 0)
        store.close()
        self.assertEqual(self.store.is_exist("k"), 0)
        self.assertEqual(self.store.put("k", b"v"), NO_SPACE)


if __name__ == "__main__":
    unittest.main(verbosity=1)
