"""Ctrl-C while a call waits: it ends soon, and nothing writes to the caller's memory afterwards."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from rig import PROGRAMS, Memory, open_store, unread

from pool import Pool, die_with_parent, states
from wait import wait_for

from mooncake.store import MooncakeDistributedStore

MIB = 1 << 20
SOON = 10.0  # seconds, far below a call's deadline of 30; without load it takes 0.1


BLOCKED = """
import os, signal, sys, threading
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("localhost", "", 16 << 20, 0, "tcp", "", sys.argv[1]) == 0
main, others = int(sys.argv[2]), int(sys.argv[3])
print("set up", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=store.get, args=("k",)) for _ in range(others)]
for thread in threads:
    thread.start()
print(os.getpid(), *(thread.native_id for thread in threads), flush=True)
if main:
    store.get("k")
while True:
    signal.pause()
"""


class Interrupts(unittest.TestCase):
    """The main thread waits for a store that is frozen."""

    def setUp(self):
        self.pool = Pool(PROGRAMS)
        self.addCleanup(self.pool.close)
        self.frozen = self.pool.add_store("64MiB", "--shm=off")
        self.store_port = self.frozen.ports()["data_port"]
        self.store = open_store(self.pool)
        self.addCleanup(self.store.close)

    def master_port(self):
        return self.pool.master.ports()["rpc_port"]

    def press(self, call, port):
        """SIGINT to this process once @call has asked @port, where nobody answers and nothing else
        of this process asks; seconds from then until it has raised."""
        before = unread(port)
        return self.press_when(call, lambda: unread(port) > before)

    def press_when(self, call, waits):
        """The same, once @waits is true. It is the waiting that is tried, not the beginning."""
        over, pressed = threading.Event(), []

        def wait_and_press():
            wait_for("the call waits", lambda: over.is_set() or waits(), 30)
            if not over.is_set():
                pressed.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=wait_and_press)
        thread.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                call()
                self.fail("the call has ended by itself")
        finally:
            over.set()
            thread.join()
        return time.monotonic() - pressed[0]

    def get_elsewhere(self, values):
        """A thread that waits for the frozen store already; its value goes to @values."""
        before = unread(self.store_port)
        thread = threading.Thread(target=lambda: values.append(self.store.get("k")))
        thread.start()
        wait_for("the thread waits", lambda: unread(self.store_port) > before)
        return thread

    def check_quiet(self, call, memory):
        """@call is ended, and the bytes of @memory stay as they are then."""
        self.frozen.freeze()
        try:
            seconds = self.press(call, self.store_port)
            self.assertLess(seconds, SOON)
            print(f"KeyboardInterrupt after {seconds * 1e3:.0f} ms")
            before = bytes(memory)
        finally:
            self.frozen.wake()
        # The store answers whoever asks now, and would have answered the call that was ended.
        other = open_store(self.pool)
        self.addCleanup(other.close)
        self.assertEqual(len(other.get("k")), MIB)
        self.assertEqual(bytes(memory), before)

    def test_a_get_from_a_frozen_store(self):
        self.assertEqual(self.store.put("k", os.urandom(MIB)), 0)
        memory = Memory(MIB)
        self.check_quiet(lambda: self.store.get_into("k", memory.ptr, MIB), memory)
        self.assertEqual(self.store.get_into("k", memory.ptr, MIB), MIB)
        self.assertEqual(bytes(memory), self.store.get("k"))

    def test_a_batch_from_a_frozen_store(self):
        self.assertEqual(self.store.put("k", os.urandom(MIB)), 0)
        memory = Memory(MIB)
        self.check_quiet(lambda: self.store.batch_get_into(["k"], [memory.ptr], [MIB]), memory)

    def test_a_put_to_a_frozen_store_leaves_no_half_value(self):
        self.frozen.freeze()
        self.assertLess(self.press(lambda: self.store.put("p", bytes(8 * MIB)),
                                   self.store_port), SOON)
        self.frozen.wake()
        self.assertIn(self.store.get("p"), (b"", bytes(8 * MIB)))
        self.assertEqual(self.store.put("q", b"v"), 0)

    def test_a_setup_with_a_master_that_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            store = MooncakeDistributedStore()
            port = mute.getsockname()[1]
            address = f"127.0.0.1:{port}"
            self.assertLess(self.press(
                lambda: store.setup("localhost", "", 0, 0, "tcp", "", address), port), SOON)
        self.assertEqual(store.setup("localhost", "", 0, 0, "tcp", "", self.pool.address), 0)
        store.close()

    def test_other_threads_go_on_waiting(self):
        self.assertEqual(self.store.put("k", b"v" * MIB), 0)
        self.frozen.freeze()
        values = []
        thread = self.get_elsewhere(values)
        self.assertLess(self.press(lambda: self.store.get("k"), self.store_port), SOON)
        self.assertTrue(thread.is_alive())
        self.frozen.wake()
        thread.join()
        self.assertEqual(values, [b"v" * MIB])

    def test_a_close_that_waits_for_others(self):
        self.assertEqual(self.store.put("k", b"v" * MIB), 0)
        self.frozen.freeze()
        values = []
        thread = self.get_elsewhere(values)
        self.assertLess(self.press_when(self.store.close,
                                        lambda: self.store.health_check() == 1), SOON)
        self.assertTrue(thread.is_alive())
        self.assertEqual(self.store.health_check(), 1)
        self.frozen.wake()
        thread.join()  # it leaves the pool, as the last one inside
        self.assertEqual(values, [b"v" * MIB])
        self.assertEqual(self.store.setup("localhost", "", 0, 0, "tcp", "", self.pool.address), 0)

    def test_a_close_with_a_master_that_says_nothing(self):
        store = open_store(self.pool, 16 * MIB)
        self.store.close()  # whose pings would look like the call
        self.pool.master.freeze()
        self.assertLess(self.press(store.close, self.master_port()), SOON)
        self.pool.master.wake()
        self.assertEqual(store.health_check(), 1)

    def test_sigterm_ends_calls_of_all_threads_and_the_process(self):
        for main, others in ((1, 0), (0, 3), (1, 3)):
            process = subprocess.Popen(
                [sys.executable, "-B", "-X", "faulthandler", "-c", BLOCKED, self.pool.address,
                 str(main), str(others)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                preexec_fn=die_with_parent)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.stdin.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "set up\n")
            self.pool.master.freeze()
            before = unread(self.master_port(), process.pid)
            process.stdin.write("go\n")
            process.stdin.flush()
            tasks = process.stdout.readline().split()
            self.assertEqual(len(tasks), 1 + others)
            wait_for("all calls wait", lambda: unread(self.master_port(), process.pid) > before and
                     states(process.pid, tasks) == {"S"})
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), -signal.SIGTERM)
            seconds = time.monotonic() - begin
            print(f"SIGTERM ends the process after {seconds * 1e3:.0f} ms")
            self.assertLess(seconds, 2 * SOON)  # a call would wait for 30
            self.pool.master.wake()

    def test_a_handler_of_the_program_runs_and_may_close_the_store(self):
        self.assertEqual(self.store.put("k", b"v" * MIB), 0)
        self.frozen.freeze()
        ran = []

        def handler(*_):
            ran.append(self.store.close())
            raise KeyboardInterrupt

        old = signal.signal(signal.SIGINT, handler)
        self.addCleanup(signal.signal, signal.SIGINT, old)
        self.assertLess(self.press(lambda: self.store.get("k"), self.store_port), 2 * SOON)
        self.assertEqual(ran, [0])


if __name__ == "__main__":
    unittest.main(verbosity=1)
