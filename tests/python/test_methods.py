"""Each method's success, miss, failure, wrong type; not set up; closed."""

import inspect
import unittest

from rig import Memory, PoolTest, open_store

from mooncake.store import (BufferHandle, MooncakeDistributedStore, ReplicateConfig,
                            SoftPinAction)

INVALID, MISS, BAD_KEY, LEASED = -600, -704, -400, -706


class Scalars(PoolTest):
    """Calls on one key."""

    def test_put_then_get_gives_the_bytes(self):
        for value in (b"x", bytearray(b"yy"), memoryview(b"zzz"), bytes(range(256)) * 5000):
            key = f"k/{len(value)}@a:b%-é"
            self.assertEqual(self.store.put(key, value), 0)
            self.assertEqual(self.store.get(key), bytes(value))
            self.assertEqual(self.store.get_size(key), len(value))
            self.assertEqual(self.store.is_exist(key), 1)

    def test_str_and_bytes_keys_are_the_same_key(self):
        self.assertEqual(self.store.put("é", b"v"), 0)
        self.assertEqual(self.store.get("é".encode()), b"v")

    def test_first_writer_wins(self):
        self.assertEqual(self.store.put("k", b"first"), 0)
        self.assertEqual(self.store.put("k", b"second"), 0)
        self.assertEqual(self.store.get("k"), b"first")

    def test_upsert_replaces(self):
        memory = Memory(b"fourth")
        self.assertEqual(self.store.upsert("k", b"first"), 0)
        self.assertEqual(self.store.upsert("k", b"second!"), 0)
        self.assertEqual(self.store.get("k"), b"second!")
        self.assertEqual(self.store.upsert_parts("k", b"th", b"ird"), 0)
        self.assertEqual(self.store.get("k"), b"third")
        self.assertEqual(self.store.upsert_from("k", memory.ptr, memory.size), 0)
        self.assertEqual(self.store.get("k"), b"fourth")
        self.assertEqual(self.store.upsert_batch(["k", "new"], [b"5", b"6"]), 0)
        self.assertEqual(self.store.get_batch(["k", "new"]), [b"5", b"6"])
        self.assertEqual(self.store.batch_upsert_from(["k"], [memory.ptr], [memory.size]), [0])
        self.assertEqual(self.store.get("k"), b"fourth")

    def test_misses(self):
        memory = Memory(8)
        self.assertEqual(self.store.get("no"), b"")
        self.assertIsNone(self.store.get_buffer("no"))
        self.assertEqual(self.store.get_into("no", memory.ptr, 8), MISS)
        self.assertEqual(self.store.get_size("no"), MISS)
        self.assertEqual(self.store.is_exist("no"), 0)
        self.assertEqual(self.store.remove("no"), MISS)
        self.assertEqual(self.store.get_replica_desc("no"), [])

    def test_bad_keys_and_values_give_codes(self):
        for key in ("", "a\0b", "k" * 4097, "\ud800"):
            self.assertEqual(self.store.put(key, b"v"), BAD_KEY, key[:5])
            self.assertEqual(self.store.get(key), b"")
        self.assertEqual(self.store.put("k" * 4096, b"v"), 0)
        self.assertEqual(self.store.put("k", b""), INVALID)
        self.assertEqual(self.store.put_parts("k", b"", b""), INVALID)
        self.assertEqual(self.store.put_parts("k"), INVALID)
        self.assertEqual(self.store.is_exist("k"), 0)

    def test_more_than_the_pool_is_no_space(self):
        config = ReplicateConfig()
        config.with_hard_pin = True
        codes = [self.store.put(f"k{i}", bytes(32 << 20), config) for i in range(9)]
        self.assertEqual(codes[0], 0)
        self.assertEqual(codes[-1], -200)

    def test_parts_are_laid_end_to_end(self):
        self.assertEqual(self.store.put_parts("k", b"ab", bytearray(b""), memoryview(b"cde")), 0)
        self.assertEqual(self.store.get("k"), b"abcde")
        self.assertEqual(self.store.put_parts("j", b"x", config=ReplicateConfig()), 0)

    def test_get_into(self):
        self.store.put("k", b"12345")
        memory = Memory(b"--------")
        self.assertEqual(self.store.get_into("k", memory.ptr, 4), INVALID)
        self.assertEqual(bytes(memory), b"--------")
        self.assertEqual(self.store.get_into("k", memory.ptr, 8), 5)
        self.assertEqual(bytes(memory), b"12345---")
        self.assertEqual(self.store.get_into("k", 0, 8), INVALID)

    def test_put_from(self):
        memory = Memory(b"hello")
        self.assertEqual(self.store.register_buffer(memory.ptr, memory.size), 0)
        self.assertEqual(self.store.put_from("k", memory.ptr, 5), 0)
        self.assertEqual(self.store.get("k"), b"hello")
        self.assertEqual(self.store.put_from("nothing", memory.ptr, 0), 0)
        self.assertEqual(self.store.is_exist("nothing"), 0)
        self.assertEqual(self.store.unregister_buffer(memory.ptr), 0)
        self.assertEqual(self.store.unregister_buffer(memory.ptr), INVALID)
        self.assertEqual(self.store.register_buffer(memory.ptr, 0), INVALID)
        self.assertEqual(self.store.put_from_with_metadata("m", memory.ptr, memory.ptr, 5, 2), 0)
        self.assertEqual(self.store.get("m"), b"hehello")

    def test_buffer_handle_outlives_its_key(self):
        self.store.put("k", b"lent bytes")
        handle = self.store.get_buffer("k")
        self.assertIsInstance(handle, BufferHandle)
        self.assertEqual(self.store.remove("k", force=True), 0)
        self.assertEqual((handle.size(), len(handle)), (10, 10))
        self.assertNotEqual(handle.ptr(), 0)
        view = memoryview(handle)
        del handle
        self.assertEqual((view.format, view.ndim, view.tobytes()), ("c", 1, b"lent bytes"))
        with self.assertRaises(TypeError):
            BufferHandle()

    def test_removal_respects_leases(self):
        self.store.put("a/1", b"v")
        self.store.put("a/2", b"v")
        self.store.put("b/1", b"v")
        self.assertEqual(self.store.is_exist("a/1"), 1)  # grants a lease
        self.assertEqual(self.store.remove("a/1"), LEASED)
        self.assertEqual(self.store.remove_by_regex("^a/"), 1)
        self.assertEqual(self.store.remove_by_regex("^a/", force=True), 1)
        self.assertEqual(self.store.remove_by_regex("("), INVALID)
        self.assertEqual(self.store.remove("b/1"), 0)
        self.store.put("c", b"v")
        self.store.put("d", b"v")
        self.assertEqual(self.store.remove_all(), 2)
        self.assertEqual(self.store.remove_all(), 0)

    def test_replica_descriptions(self):
        self.store.put("k", b"12345")
        copies = self.store.get_replica_desc("k")
        self.assertEqual(len(copies), 1)
        self.assertTrue(copies[0].is_memory_replica())
        self.assertFalse(copies[0].is_disk_replica())
        where = copies[0].get_memory_descriptor().buffer_descriptor
        self.assertEqual(where.size, 5)
        self.assertNotEqual(where.transport_endpoint, "")
        self.assertEqual(list(self.store.batch_get_replica_desc(["k", "no"])), ["k"])
        self.assertEqual(self.store.batch_replica_clear(["k", "no"]), ["k"])

    def test_config_is_read_at_each_call(self):
        config = ReplicateConfig()
        config.soft_pin_action = SoftPinAction.ENABLE
        self.assertIn("replica_num=1", str(config))
        self.assertEqual(self.store.put("a", b"v", config), 0)
        config.replica_num = 99
        self.assertEqual(self.store.put("b", b"v", config), INVALID)
        config.replica_num = "two"
        with self.assertRaisesRegex(TypeError, "replica_num"):
            self.store.put("c", b"v", config)
        for wrong in (-1, 1 << 64, "x"):
            with self.assertRaises(TypeError):
                config.soft_pin_ttl_ms = wrong

    def test_wrong_types_raise(self):
        store = self.store
        for call in (lambda: store.put(1, b"v"), lambda: store.put("k", "text"),
                     lambda: store.put("k"), lambda: store.put("k", b"v", 7),
                     lambda: store.get(None), lambda: store.get_into("k", "p", 1),
                     lambda: store.get_into("k", -1, 1), lambda: store.get_into("k", 1 << 64, 1),
                     lambda: store.put_from("k", 1.5, 1), lambda: store.register_buffer("p", 1),
                     lambda: store.batch_is_exist("abc"), lambda: store.batch_is_exist(3),
                     lambda: store.batch_is_exist([1]), lambda: store.put_parts("k", 3),
                     lambda: store.put_batch(["k"], [3]), lambda: store.put_batch(["k"], b"v"),
                     lambda: store.batch_get_into(["k"], [None], [1]),
                     lambda: store.batch_get_into_multi_buffers(["k"], [3], [[1]])):
            with self.assertRaises(TypeError):
                call()
        with self.assertRaisesRegex(TypeError, "'colour'"):
            store.put("k", b"v", colour=1)
        with self.assertRaisesRegex(TypeError, "'colour'"):
            store.put_parts("k", b"v", colour=1)
        self.assertEqual(store.remove_all(True), 0)


class Batches(PoolTest):
    """Calls on lists of keys."""

    def test_results_stand_in_input_order(self):
        memory = [Memory(f"value {i}".encode()) for i in range(5)]
        keys = [f"k{i}" for i in range(5)]
        ptrs, sizes = [m.ptr for m in memory], [m.size for m in memory]
        self.assertEqual(self.store.batch_put_from(keys, ptrs, sizes), [0] * 5)
        self.assertEqual(self.store.batch_put_from(keys, ptrs, sizes), [0] * 5)
        keys[2] = "no"
        self.assertEqual(self.store.batch_is_exist(keys), [1, 1, 0, 1, 1])
        targets = [Memory(8) for _ in keys]
        targets[3] = Memory(3)
        self.assertEqual(self.store.batch_get_into(keys, [m.ptr for m in targets],
                                                   [m.size for m in targets]),
                         [7, 7, MISS, INVALID, 7])
        self.assertEqual(bytes(targets[4]), b"value 4\0")
        self.assertEqual(self.store.get_batch(keys)[1:3], [b"value 1", b""])
        handles = self.store.batch_get_buffer(keys)
        self.assertIsNone(handles[2])
        self.assertEqual(bytes(handles[4]), b"value 4")
        self.assertEqual(self.store.batch_remove(keys), [LEASED, LEASED, MISS, LEASED, LEASED])
        self.assertEqual(self.store.batch_remove(keys, True), [0, 0, MISS, 0, 0])

    def test_a_repeated_key_fills_both_buffers(self):
        self.store.put("k", b"abc")
        one, two = Memory(3), Memory(3)
        self.assertEqual(self.store.batch_get_into(["k", "k"], [one.ptr, two.ptr], [3, 3]), [3, 3])
        self.assertEqual((bytes(one), bytes(two)), (b"abc", b"abc"))
        self.assertEqual(self.store.batch_put_from(["n", "n"], [one.ptr, two.ptr], [3, 2]), [0, 0])
        self.assertEqual(self.store.get("n"), b"abc")

    def test_unequal_lengths_fail_everywhere(self):
        store, memory = self.store, Memory(8)
        two = [INVALID] * 2
        self.assertEqual(store.batch_put_from(["a", "b"], [memory.ptr], [8]), two)
        self.assertEqual(store.batch_get_into(["a", "b"], [memory.ptr] * 2, [8]), two)
        self.assertEqual(store.batch_put_from_multi_buffers(["a", "b"], [[memory.ptr]], [[8]]), two)
        self.assertEqual(store.batch_get_into_multi_buffers(
            ["a", "b"], [[memory.ptr]] * 2, [[8], [4, 4]]), two)
        self.assertEqual(store.put_batch(["a", "b"], [b"v"]), INVALID)
        self.assertEqual(store.batch_is_exist(["a", "b"]), [0, 0])

    def test_empty_lists(self):
        store = self.store
        self.assertEqual(store.batch_put_from([], [], []), [])
        self.assertEqual(store.batch_get_into([], [], []), [])
        self.assertEqual(store.batch_put_from_multi_buffers([], [], []), [])
        self.assertEqual(store.batch_get_into_multi_buffers([], [], []), [])
        self.assertEqual(store.batch_is_exist([]), [])
        self.assertEqual(store.batch_remove([]), [])
        self.assertEqual(store.batch_get_buffer([]), [])
        self.assertEqual(store.get_batch([]), [])
        self.assertEqual(store.put_batch([], []), 0)
        self.assertEqual(store.get_into_ranges([], [], [], [], []), [])

    def test_put_batch(self):
        self.assertEqual(self.store.put_batch(["a", "b"], [b"1", bytearray(b"22")]), 0)
        self.assertEqual(self.store.get_batch(["a", "b"]), [b"1", b"22"])
        self.assertEqual(self.store.put_batch(["c", "", "d"], [b"1", b"2", b"3"]), BAD_KEY)
        self.assertEqual(self.store.get("d"), b"3")

    def test_many_buffers_make_one_value(self):
        memory = Memory(b"abcdefgh")
        ptrs = [[memory.ptr, memory.ptr + 4], [memory.ptr + 6]]
        self.assertEqual(self.store.batch_put_from_multi_buffers(
            ["k", "j"], ptrs, [[2, 3], [2]], ReplicateConfig()), [0, 0])
        self.assertEqual(self.store.get_batch(["k", "j"]), [b"abefg", b"gh"])
        target = Memory(8)
        self.assertEqual(self.store.batch_get_into_multi_buffers(
            ["k", "no", "j"], [[target.ptr + 3, target.ptr], [target.ptr + 7], [target.ptr + 5]],
            [(2, 3), [1], [2]], False), [5, MISS, 2])
        self.assertEqual(bytes(target), b"efgabgh\0")

    def test_numbers_may_come_in_arrays(self):
        import array
        memory = Memory(b"abcd")
        ptrs = array.array("q", [memory.ptr, memory.ptr + 2])
        self.assertEqual(self.store.batch_put_from(["a", "b"], ptrs, array.array("Q", [2, 2])),
                         [0, 0])
        self.assertEqual(self.store.get("b"), b"cd")
        with self.assertRaisesRegex(TypeError, "64-bit"):
            self.store.batch_put_from(["a"], array.array("i", [1]), [1])

    def test_an_element_that_shrinks_its_list_does_no_harm(self):
        class Odd:
            def __index__(self):
                numbers.clear()
                return 1
        numbers = [Odd(), Odd(), Odd()]
        with self.assertRaises(IndexError):
            self.store.batch_get_into(["a", "b", "c"], numbers, [1, 1, 1])

    def test_ranges(self):
        self.store.put("k", b"0123456789")
        target = Memory(b"-" * 8)
        self.assertEqual(self.store.get_into_ranges([target.ptr], [["k"]], [[[0]]], [[[0]]],
                                                    [[[1]]]), [[[INVALID]]])
        self.store.register_buffer(target.ptr, 8)
        self.addCleanup(self.store.unregister_buffer, target.ptr)
        self.assertEqual(self.store.get_into_ranges(
            [target.ptr], [["k", "no"]], [[[0, 6, 7], [0]]], [[[8, 0, 0], [0]]],
            [[[2, 2, 2], [1]]]), [[[2, 2, INVALID], [MISS]]])
        self.assertEqual(bytes(target), b"89----01")
        self.assertEqual(self.store.get_into_ranges([target.ptr], [["k"]], [[[0]]], [[[9]]],
                                                    [[[2]]]), [[[INVALID]]])


class Life(PoolTest):
    """Set up, close, health."""

    def check_unusable(self, store):
        memory = Memory(8)
        self.assertEqual(store.health_check(), 1)
        self.assertEqual(store.get_hostname(), "")
        self.assertEqual(store.register_buffer(memory.ptr, 8), INVALID)
        self.assertEqual(store.unregister_buffer(memory.ptr), INVALID)
        for code in (store.put("k", b"v"), store.upsert("k", b"v"), store.put_parts("k", b"v"),
                     store.put_from("k", memory.ptr, 8), store.get_into("k", memory.ptr, 8),
                     store.get_size("k"), store.remove("k"), store.remove_all(),
                     store.remove_by_regex("k"), store.put_batch(["k"], [b"v"])):
            self.assertEqual(code, INVALID)
        self.assertEqual(store.get("k"), b"")
        self.assertEqual(store.get_batch(["k"]), [b""])
        self.assertIsNone(store.get_buffer("k"))
        self.assertEqual(store.batch_get_buffer(["k", "j"]), [None, None])
        self.assertEqual(store.is_exist("k"), 0)
        self.assertEqual(store.batch_is_exist(["k"]), [0])
        self.assertEqual(store.get_replica_desc("k"), [])
        for codes in (store.batch_put_from(["k"], [memory.ptr], [8]),
                      store.batch_get_into(["k"], [memory.ptr], [8]),
                      store.batch_put_from_multi_buffers(["k"], [[memory.ptr]], [[8]]),
                      store.batch_get_into_multi_buffers(["k"], [[memory.ptr]], [[8]]),
                      store.batch_remove(["k"])):
            self.assertEqual(codes, [INVALID])
        self.assertEqual(store.close(), 0)

    def test_before_setup_and_after_close(self):
        store = MooncakeDistributedStore()
        self.check_unusable(store)
        self.assertEqual(store.setup("localhost", "", 1 << 20, 0, "tcp", "", self.pool.address), 0)
        self.assertNotEqual(store.setup("localhost", "", 0, 0, "tcp", "", self.pool.address), 0)
        self.assertEqual(store.put("k", b"v"), 0)
        self.assertEqual(store.close(), 0)
        self.check_unusable(store)

    def test_setup_again_under_the_same_name_at_once(self):
        for _ in range(3):
            store = open_store(self.pool, 1 << 20, "localhost:23456")
            self.assertEqual(store.get_hostname(), "localhost:23456")
            store.close()

    def test_localhost_on_every_rank_does_not_collide(self):
        stores = [open_store(self.pool, 1 << 20) for _ in range(4)]
        names = {store.get_hostname() for store in stores}
        for store in stores:
            store.close()
        self.assertEqual(len(names), 4)
        for name in names:
            self.assertTrue(12300 <= int(name.rsplit(":")[-1]) <= 14300, name)

    def test_a_name_that_is_taken_is_an_error(self):
        first = open_store(self.pool, 1 << 20, "localhost:23457")
        self.addCleanup(first.close)
        store = MooncakeDistributedStore()
        self.assertEqual(store.setup("localhost:23457", "", 1 << 20, 0, "tcp", "",
                                     self.pool.address), -102)

    def test_setup_forms(self):
        whole = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE",
                 "global_segment_size": "1 MB", "local_buffer_size": "16MB", "protocol": "rdma",
                 "rdma_devices": "mlx5_0", "master_server_addr": self.pool.address}
        store = MooncakeDistributedStore()
        self.assertEqual(store.setup(whole), 0)
        store.close()
        self.assertEqual(store.setup(dict(whole, global_segment_size=1 << 20)), 0)
        store.close()
        self.assertEqual(store.setup(dict(whole, global_segment_size="50%")), INVALID)
        self.assertEqual(store.setup({"local_hostname": "localhost"}), INVALID)
        numbers = dict(whole, global_segment_size=0, local_buffer_size=0)
        self.assertEqual(store.setup(**numbers, engine=None, enable_ssd_offload=False), 0)
        store.close()
        self.assertEqual(store.setup(*numbers.values(), None), 0)
        store.close()
        with self.assertRaisesRegex(TypeError, "colour"):
            store.setup(*numbers.values(), colour=1)
        with self.assertRaisesRegex(TypeError, "rdma_devices"):
            store.setup(*list(numbers.values())[:5])
        with self.assertRaises(TypeError):
            store.setup(**dict(numbers, global_segment_size="big"))
        self.assertIn("enable_ssd_offload", inspect.signature(store.setup).parameters)

    def test_no_master_is_a_code(self):
        store = MooncakeDistributedStore()
        code = store.setup("localhost", "", 0, 0, "tcp", "", "127.0.0.1:1")
        self.assertIn(code, (-900, -901))

    def test_a_large_segment_is_mounted_at_once(self):
        store = open_store(self.pool, 3200 << 20)
        store.close()


if __name__ == "__main__":
    unittest.main(verbosity=1)
