"""get_buffer and batch_get_buffer: values lent where they lie, for as long as somebody looks."""

import ctypes
import gc
import os
import signal
import threading
import time
import unittest

from rig import PROGRAMS, Memory, PoolTest, await_no_more, census, open_store

from pool import Pool
from wait import wait_for

MIB = 1 << 20
NO_SPACE, LEASED, EXPIRED, UNAVAILABLE = -200, -706, -707, -1010
SLOW = "LD_PRELOAD" in os.environ  # a sanitizer


def mapping_of(address):
    """Name of what is mapped at an address, from /proc/self/maps; None if nothing is."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= address < end:
                return line.split(maxsplit=5)[5].strip() if len(line.split()) > 5 else ""
    return None


def status_bytes(name):
    """A figure of /proc/self/status, such as RssAnon."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
    raise KeyError(name)


def mappings():
    with open("/proc/self/maps", "rb") as maps:
        return len(maps.readlines())


def in_child(work):
    """Exit status of a forked child that runs @work."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)  # whatever happens, it ends
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"child: {error!r}\n".encode())
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class InPlace(PoolTest):
    """The store lies on this host and shares its memory."""

    def put(self, key, size=MIB):
        value = os.urandom(1024) * (size // 1024)
        self.assertEqual(self.store.put(key, value), 0)
        return value

    def assert_in_place(self, handle):
        self.assertIn("memfd:", mapping_of(handle.ptr()))

    def test_a_value_is_lent_and_not_copied(self):
        value = self.put("k", 64 * MIB)
        begin = status_bytes("RssAnon")
        handle = self.store.get_buffer("k")
        self.assert_in_place(handle)
        with memoryview(handle) as view:
            self.assertEqual((view.readonly, view.format, view.ndim, view.nbytes),
                             (True, "c", 1, 64 * MIB))
            self.assertTrue(view.cast("B") == value)
            self.assertLess(status_bytes("RssAnon") - begin, 16 * MIB)
        self.assertEqual((handle.size(), len(handle), handle.check()), (64 * MIB, 64 * MIB, 0))
        if not SLOW:  # the figure does see a copy
            copy = self.store._batch_get_copy(["k"])[0]
            self.assertGreater(status_bytes("RssAnon") - begin, 48 * MIB)
            self.assertNotIn("memfd:", mapping_of(copy.ptr()))

    def test_nobody_may_write_there(self):
        self.put("k")
        handle = self.store.get_buffer("k")
        with self.assertRaises(TypeError):
            memoryview(handle)[0] = b"x"
        with self.assertRaises((TypeError, BufferError)):
            (ctypes.c_char * 4).from_buffer(handle)

    def test_a_batch_with_misses(self):
        values = {f"b/{i}": self.put(f"b/{i}", 4096 * (i + 1)) for i in range(20)}
        keys = [key for known in values for key in (known, "no " + known)] + ["b/3", ""]
        handles = self.store.batch_get_buffer(keys)
        self.assertEqual(len(handles), len(keys))
        for key, handle in zip(keys, handles):
            if key in values:
                self.assertEqual(bytes(handle), values[key])
                self.assert_in_place(handle)
            else:
                self.assertIsNone(handle)

    def test_a_view_outlives_its_handle_and_its_key(self):
        value = self.put("k")
        view = memoryview(self.store.get_buffer("k"))[1000:5000]
        gc.collect()
        self.assertEqual(self.store.remove("k"), LEASED)
        self.assertEqual(self.store.remove("k", True), 0)
        self.assertEqual(self.store.get("k"), b"")
        self.put("other", 8 * MIB)
        self.assertEqual(view.tobytes(), value[1000:5000])

    def test_a_new_value_beside_the_viewed_one(self):
        old = self.put("k")
        handle = self.store.get_buffer("k")
        new = os.urandom(MIB)
        self.assertEqual(self.store.upsert("k", new), 0)
        for i in range(20):  # the old one's space is nobody's
            self.put(f"more {i}")
        self.assertEqual(self.store.get("k"), new)
        self.assertEqual((bytes(handle), handle.check()), (old, 0))
        self.assertEqual(bytes(self.store.get_buffer("k")), new)

    def test_released_space_is_used_again(self):
        with Pool(PROGRAMS, ("64MiB",), ("--default_kv_lease_ttl=2000",)) as pool:
            store, value = open_store(pool), bytes(40 * MIB)
            self.addCleanup(store.close)
            for _ in range(3):  # the segment holds one of them
                wait_for("the last view's lease has run out", lambda: store.put("k", value) == 0)
                handle = store.get_buffer("k")
                self.assertEqual(memoryview(handle).nbytes, len(value))
                self.assertEqual(store.remove("k", True), 0)
                self.assertEqual(store.put("other", value), NO_SPACE)
                del handle

    def test_closing_the_store_leaves_views_readable(self):
        value = self.put("k")
        store = open_store(self.pool)
        handle, view = store.get_buffer("k"), memoryview(store.get_buffer("k"))
        self.assertEqual(store.close(), 0)
        self.assertEqual(bytes(handle), value)
        self.assert_in_place(handle)
        self.assertEqual(store.setup("localhost", "", 0, 0, "tcp", "", self.pool.address), 0)
        self.addCleanup(store.close)
        self.assertEqual(bytes(store.get_buffer("k")), value)
        del handle
        self.assertEqual(view.tobytes(), value)

    def test_views_of_this_process_own_segment(self):
        with Pool(PROGRAMS) as pool:
            store = open_store(pool, 64 * MIB)
            self.addCleanup(store.close)
            self.assertEqual(store.put("k", b"own" * 1000), 0)
            handle = store.get_buffer("k")
            self.assert_in_place(handle)
            self.assertEqual(store.close(), 0)  # takes the segment out of the pool
            self.assertEqual(bytes(handle), b"own" * 1000)

    def test_a_store_that_dies_leaves_views_readable_but_unsure(self):
        with Pool(PROGRAMS, ("64MiB",)) as pool:
            store = open_store(pool)
            self.addCleanup(store.close)
            self.assertEqual(store.put("k", b"v" * MIB), 0)
            handle = store.get_buffer("k")
            self.assertEqual(handle.check(), 0)
            pool.stores[0].process.kill()
            pool.stores[0].process.wait()
            self.assertEqual(handle.check(), EXPIRED)
            self.assertEqual(bytes(handle), b"v" * MIB)

    def test_a_lease_that_nobody_renews_is_told(self):
        with Pool(PROGRAMS, ("64MiB",), ("--default_kv_lease_ttl=2000",)) as pool:
            store = open_store(pool)
            self.addCleanup(store.close)
            self.assertEqual(store.put("k", b"v" * MIB), 0)
            handle = store.get_buffer("k")
            self.assertEqual(store.batch_get_session_start(["k"]), [0])
            deadline = time.monotonic() + 5  # longer than two leases: they are renewed
            while time.monotonic() < deadline:
                self.assertEqual(store.remove("k"), LEASED)
            self.assertEqual(handle.check(), 0)
            pool.master.freeze()
            wait_for("the lease has ended", lambda: handle.check() != 0)
            self.assertEqual(handle.check(), EXPIRED)
            memory = Memory(8)
            self.assertEqual(store.batch_get_into_multi_buffer_ranges(
                ["k"], [[memory.ptr]], [[8]], [[0]]), [EXPIRED])
            pool.master.wake()

    def test_eight_threads(self):
        values = {f"t/{i}": self.put(f"t/{i}", 65536) for i in range(16)}
        failures = []

        def work(number):
            keys = list(values)[number:] + list(values)[:number]
            for round_ in range(20):
                handles = self.store.batch_get_buffer(keys)
                views = [memoryview(handle) for handle in handles]
                del handles
                if any(view != values[key] for key, view in
                       zip(keys, (view.cast("B") for view in views))):
                    failures.append((number, round_))
                if bytes(self.store.get_buffer(keys[0])) != values[keys[0]]:
                    failures.append((number, round_, "single"))
                self.store.put(f"own {number}", bytes(1000))
                self.store.remove(f"own {number}", True)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_views_are_dropped_by_other_threads_while_the_store_closes(self):
        value = self.put("k")
        for _ in range(5):
            store = open_store(self.pool)
            handles = store.batch_get_buffer(["k"] * 400)
            threads = [threading.Thread(target=lambda: [handles.pop() for _ in range(40)])
                       for _ in range(8)]
            for thread in threads:
                thread.start()
            self.assertEqual(store.close(), 0)
            for thread in threads:
                thread.join()
            self.assertEqual(len(handles), 80)
            self.assertTrue(all(bytes(handle) == value for handle in handles))

    def test_thousands_of_views_leave_nothing_behind(self):
        self.put("k", 65536)

        def look(rounds):
            for _ in range(rounds):
                handles = self.store.batch_get_buffer(["k"] * 498 + ["no"])
                handles.append(self.store.get_buffer("k"))
                views = [memoryview(handle) for handle in handles if handle is not None]
                self.assertEqual(len(views), 499)
            del handles, views

        look(4)
        gc.collect()
        begin, counts, mapped = status_bytes("RssAnon"), census(), mappings()
        look(40)
        gc.collect()
        grown = status_bytes("RssAnon") - begin
        print(f"20,000 views: {grown >> 10} KiB more")
        await_no_more(counts)
        self.assertLess(mappings() - mapped, 20)
        self.assertLess(grown, (64 if SLOW else 1) * MIB)

    def test_tensors_are_their_owners(self):
        try:
            import numpy  # pylint: disable=import-outside-toplevel
            import torch  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("no torch (python3-torch)")
        self.assertEqual(self.store.put_tensor("t", numpy.zeros(1000, numpy.float32)), 0)
        tensor = self.store.get_tensor("t")
        tensor += 1
        self.assertTrue(torch.equal(self.store.get_tensor("t"), torch.zeros(1000)))


class Forks(PoolTest):
    """A forked child sees what was looked at before, and nothing else."""

    def setUp(self):
        super().setUp()
        self.value = os.urandom(3 * MIB + 77)
        self.assertEqual(self.store.put("k", self.value), 0)

    def test_what_was_looked_at_is_the_childs_own(self):
        handle = self.store.get_buffer("k")
        view = memoryview(handle)[5:]
        both = [memoryview(other) for other in self.store.batch_get_buffer(["k", "k"])]

        def work():
            assert "memfd:" not in mapping_of(handle.ptr())
            assert view.tobytes() == self.value[5:]
            assert bytes(handle) == self.value and handle.check() == 0
            assert all(other.tobytes() == self.value for other in both)
            assert in_child(lambda: self.assertEqual(bytes(handle), self.value)) == 0
            del both[:]

        self.assertEqual(in_child(work), 0)
        self.assertIn("memfd:", mapping_of(handle.ptr()))
        self.assertEqual((bytes(handle), handle.check()), (self.value, 0))

    def test_the_childs_copy_does_not_change_with_the_pool(self):
        handle = self.store.get_buffer("k")
        view = memoryview(handle)
        address = handle.ptr()
        ends = os.pipe() + os.pipe()
        self.addCleanup(lambda: [os.close(end) for end in ends])

        def work():
            os.write(ends[1], b"here")
            os.read(ends[2], 1)  # the parent has written there
            assert view.tobytes() == self.value

        codes = []
        child = threading.Thread(target=lambda: codes.append(in_child(work)))
        child.start()
        os.read(ends[0], 4)
        ctypes.memset(address, 0, len(self.value))  # as the space's next owner would
        os.write(ends[3], b"x")
        child.join()
        self.assertEqual(codes, [0])

    def test_what_was_not_looked_at_is_refused(self):
        handle = self.store.get_buffer("k")

        def work():
            for look in (handle.ptr, lambda: memoryview(handle), lambda: bytes(handle)):
                try:
                    look()
                except BufferError as error:
                    assert "fork" in str(error)
                else:
                    raise AssertionError("no BufferError")
            assert (handle.size(), len(handle)) == (len(self.value), len(self.value))
            assert handle.check() == UNAVAILABLE

        self.assertEqual(in_child(work), 0)
        self.assertEqual(bytes(handle), self.value)

    def test_a_session_of_the_parent_has_expired_in_the_child(self):
        self.assertEqual(self.store.batch_get_session_start(["k"]), [0])
        memory = Memory(8)

        def work():
            assert self.store.batch_get_into_multi_buffer_ranges(
                ["k"], [[memory.ptr]], [[8]], [[0]]) == [EXPIRED]

        self.assertEqual(in_child(work), 0)
        self.assertEqual(self.store.batch_get_into_multi_buffer_ranges(
            ["k"], [[memory.ptr]], [[8]], [[0]]), [8])
        self.assertEqual(self.store.batch_get_session_end(["k"]), 0)

    def test_forks_while_others_look(self):
        stop, failures = threading.Event(), []

        def look():
            while not stop.is_set():
                if memoryview(self.store.get_buffer("k"))[-9:].tobytes() != self.value[-9:]:
                    failures.append("wrong bytes")

        threads = [threading.Thread(target=look) for _ in range(3)]
        handle = self.store.get_buffer("k")
        view = memoryview(handle)
        for thread in threads:
            thread.start()
        codes = [in_child(lambda: self.assertEqual(view.tobytes(), self.value)) for _ in range(10)]
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual((codes, failures), ([0] * 10, []))

    def test_a_fork_leaves_the_parents_mappings_as_they_were(self):
        handles = self.store.batch_get_buffer(["k"] * 5)
        views = [memoryview(handle) for handle in handles]
        before = mappings()
        self.assertEqual(in_child(lambda: None), 0)
        self.assertLessEqual(mappings(), before + 2)
        self.assertEqual(views[4].tobytes(), self.value)


class OverTcp(unittest.TestCase):
    """Nothing can be looked at in place: a copy, with the same face."""

    def test_a_copy(self):
        with Pool(PROGRAMS) as pool:
            pool.add_store("64MiB", "--shm=off").ports()
            store = open_store(pool)
            self.addCleanup(store.close)
            value = os.urandom(2 * MIB)
            self.assertEqual(store.put("k", value), 0)
            handle = store.get_buffer("k")
            view = memoryview(handle)
            self.assertNotIn("memfd:", mapping_of(handle.ptr()))
            self.assertEqual((view.readonly, view.format, handle.check()), (True, "c", 0))
            self.assertEqual([None if other is None else bytes(other) for other in
                              store.batch_get_buffer(["k", "no"])], [value, None])
            self.assertEqual(in_child(lambda: self.assertEqual(bytes(handle), value)), 0)
            begin = status_bytes("RssAnon")
            for _ in range(50):
                self.assertEqual(memoryview(store.get_buffer("k")).nbytes, 2 * MIB)
            self.assertLess(status_bytes("RssAnon") - begin, 40 * MIB)
            self.assertEqual(store.remove("k", True), 0)
            store.close()
            del handle
            self.assertEqual(view.tobytes(), value)


if __name__ == "__main__":
    unittest.main(verbosity=1)
