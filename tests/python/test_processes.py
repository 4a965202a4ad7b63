"""Processes: two that read each other, forks, and every way to end."""

import os
import signal
import subprocess
import sys
import threading
import unittest

from rig import PROGRAMS, open_store

from pool import Pool, die_with_parent

from mooncake.store import MooncakeDistributedStore

NAME = "localhost:23999"

READER = """
import sys
from mooncake.store import MooncakeDistributedStore
master, me, other = sys.argv[1:]
store = MooncakeDistributedStore()
assert store.setup("localhost", "", 32 << 20, 16 << 20, "tcp", "", master) == 0
value = lambda rank, i: (rank + str(i)).encode() * 100000
assert store.put_batch([f"{me}/{i}" for i in range(20)], [value(me, i) for i in range(20)]) == 0
print("written", flush=True)
sys.stdin.readline()
got = store.get_batch([f"{other}/{i}" for i in range(20)])
assert got == [value(other, i) for i in range(20)], [len(g) for g in got]
print("read", flush=True)
sys.stdin.readline()
"""

BUSY = """
import sys, threading
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup(sys.argv[2], "", 32 << 20, 16 << 20, "tcp", "", sys.argv[1]) == 0
begun = [threading.Event() for _ in range(6)]
def work(event):
    number = begun.index(event)
    while True:
        store.put(f"k{number}", bytes(1 << 20))
        store.get(f"k{number}")
        store.batch_get_buffer([f"k{number}"] * 3)
        store.remove(f"k{number}", True)
        event.set()
for event in begun:
    threading.Thread(target=work, args=(event,), daemon=True).start()
for event in begun:
    event.wait()
print("busy", flush=True)
"""

WAIT = "\nimport signal\nwhile True: signal.pause()\n"


class Processes(unittest.TestCase):
    """One master; segments are those of the processes."""

    @classmethod
    def setUpClass(cls):
        cls.pool = Pool(PROGRAMS, ("64MiB",))
        cls.addClassCleanup(cls.pool.close)

    def run_python(self, script, *args):
        process = subprocess.Popen(
            [sys.executable, "-B", "-X", "faulthandler", "-c", script, self.pool.address, *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def assert_name_is_free(self, name):
        """Whoever had it has left the pool: it can be mounted at once."""
        open_store(self.pool, 1 << 20, name).close()

    def test_two_processes_read_each_other(self):
        ranks = [self.run_python(READER, "left", "right"), self.run_python(READER, "right", "left")]
        for word in ("written", "read"):
            for rank in ranks:
                self.assertEqual(rank.stdout.readline().strip(), word)
            for rank in ranks:
                rank.stdin.write("go\n")
                rank.stdin.flush()
        for rank in ranks:
            self.assertEqual(rank.wait(60), 0)

    def test_exit_with_calls_in_flight_leaves_the_pool(self):
        process = self.run_python(BUSY, NAME)
        self.assertEqual(process.stdout.readline().strip(), "busy")
        self.assertEqual(process.wait(60), 0)
        self.assert_name_is_free(NAME)

    def test_sigterm_leaves_the_pool(self):
        process = self.run_python(BUSY + WAIT, NAME)
        self.assertEqual(process.stdout.readline().strip(), "busy")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), -signal.SIGTERM)
        self.assert_name_is_free(NAME)

    def test_a_sigterm_handler_of_the_program_stays(self):
        mine = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: exit(7))\n"
        process = self.run_python(mine + BUSY + WAIT, NAME)
        self.assertEqual(process.stdout.readline().strip(), "busy")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 7)
        self.assert_name_is_free(NAME)

    def test_an_exception_leaves_the_pool(self):
        process = self.run_python(BUSY + "\nsys.stderr = None\nraise RuntimeError\n", NAME)
        self.assertEqual(process.stdout.readline().strip(), "busy")
        self.assertEqual(process.wait(60), 1)
        self.assert_name_is_free(NAME)

    def test_dropping_the_last_reference_leaves_the_pool(self):
        store = open_store(self.pool, 1 << 20, NAME)
        del store
        self.assert_name_is_free(NAME)

    def check_in_child(self, store):
        assert store.put("child", b"v") < 0
        assert store.get("parent") == b""
        assert store.batch_get_into(["parent"], [1], [1])[0] < 0
        assert store.is_exist("parent") == 0
        assert store.register_buffer(4096, 4096) < 0
        assert store.health_check() != 0
        assert store.close() == 0
        assert store.setup("localhost", "", 1 << 20, 0, "tcp", "", self.pool.address) == 0
        assert store.get("parent") == b"value"
        assert store.close() == 0

    @unittest.skipIf("LD_PRELOAD" in os.environ,
                     "the sanitizer's allocator may be locked in a child of busy threads")
    def test_a_forked_child_gets_codes_and_the_parent_is_unharmed(self):
        store = open_store(self.pool, 1 << 20)
        self.addCleanup(store.close)
        self.assertEqual(store.put("parent", b"value"), 0)
        stop = threading.Event()

        def keep_busy():
            while not stop.is_set():
                store.get("parent")

        busy = threading.Thread(target=keep_busy)
        busy.start()  # so that calls are under way at the fork
        for _ in range(5):
            child = os.fork()
            if child == 0:
                try:
                    signal.alarm(60)  # whatever happens, it ends
                    self.check_in_child(store)
                    os._exit(0)
                except BaseException as error:
                    os.write(2, f"child: {error!r}\n".encode())
                finally:
                    os._exit(1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        stop.set()
        busy.join()
        self.assertEqual(store.get("parent"), b"value")
        self.assertEqual(store.health_check(), 0)

    def test_questions_to_a_dead_master_are_misses(self):
        with Pool(PROGRAMS, ("64MiB",)) as pool:
            store = open_store(pool)
            self.addCleanup(store.close)
            self.assertEqual(store.put("k", b"v"), 0)
            self.assertEqual(store.health_check(), 0)
            pool.master.process.kill()
            pool.master.process.wait()
            self.assertEqual(store.is_exist("k"), 0)
            self.assertEqual(store.batch_is_exist(["k", "j"]), [0, 0])
            self.assertLess(store.put("j", b"v"), 0)
            self.assertEqual(store.health_check(), 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
