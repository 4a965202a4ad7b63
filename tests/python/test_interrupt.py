"""Ctrl-C while a call waits: it ends soon, and nothing writes to the caller's memory afterwards."""

import os
import signal
import socket
import threading
import time
import unittest

from rig import PROGRAMS, Memory, freeze, open_store

from pool import Pool

from mooncake.store import MooncakeDistributedStore

MIB = 1 << 20
SOON = 5.0  # seconds, far below a call's deadline of 30; without load it takes 0.1


class Interrupts(unittest.TestCase):
    """The main thread waits for a store that is frozen."""

    def setUp(self):
        self.pool = Pool(PROGRAMS)
        self.addCleanup(self.pool.close)
        self.frozen = self.pool.add_store("64MiB", "--shm=off")
        self.frozen.ports()
        self.store = open_store(self.pool)
        self.addCleanup(self.store.close)

    def press(self, call):
        """SIGINT to this process once @call waits; seconds from then until it has raised."""
        main, over, pressed = threading.get_native_id(), threading.Event(), []

        def wait_and_press():
            while not over.wait(0.01):  # until the main thread sleeps in the call
                with open(f"/proc/self/task/{main}/stat", encoding="ascii") as file:
                    if file.read().rpartition(")")[2].split()[0] == "S":
                        break
            if not over.wait(0.2):  # not at the beginning: it is the waiting that is tried
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

    def check_quiet(self, call, memory):
        """@call is ended, and the bytes of @memory stay as they are then."""
        freeze(self.frozen.process.pid)
        try:
            seconds = self.press(call)
            self.assertLess(seconds, SOON)
            print(f"KeyboardInterrupt after {seconds * 1e3:.0f} ms")
            before = bytes(memory)
        finally:
            os.kill(self.frozen.process.pid, signal.SIGCONT)
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
        freeze(self.frozen.process.pid)
        self.assertLess(self.press(lambda: self.store.put("p", bytes(8 * MIB))), SOON)
        os.kill(self.frozen.process.pid, signal.SIGCONT)
        self.assertIn(self.store.get("p"), (b"", bytes(8 * MIB)))
        self.assertEqual(self.store.put("q", b"v"), 0)

    def test_a_setup_with_a_master_that_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            store = MooncakeDistributedStore()
            address = f"127.0.0.1:{mute.getsockname()[1]}"
            self.assertLess(self.press(
                lambda: store.setup("localhost", "", 0, 0, "tcp", "", address)), SOON)
        self.assertEqual(store.setup("localhost", "", 0, 0, "tcp", "", self.pool.address), 0)
        store.close()

    def test_other_threads_go_on_waiting(self):
        self.assertEqual(self.store.put("k", b"v" * MIB), 0)
        freeze(self.frozen.process.pid)
        values = []
        thread = threading.Thread(target=lambda: values.append(self.store.get("k")))
        thread.start()
        self.assertLess(self.press(lambda: self.store.get("k")), SOON)
        self.assertTrue(thread.is_alive())
        os.kill(self.frozen.process.pid, signal.SIGCONT)
        thread.join()
        self.assertEqual(values, [b"v" * MIB])

    def test_a_handler_of_the_program_runs_and_may_close_the_store(self):
        self.assertEqual(self.store.put("k", b"v" * MIB), 0)
        freeze(self.frozen.process.pid)
        ran = []

        def handler(*_):
            ran.append(self.store.close())
            raise KeyboardInterrupt

        old = signal.signal(signal.SIGINT, handler)
        self.addCleanup(signal.signal, signal.SIGINT, old)
        self.assertLess(self.press(lambda: self.store.get("k")), 3 * SOON)
        self.assertEqual(ran, [0])


if __name__ == "__main__":
    unittest.main(verbosity=1)
