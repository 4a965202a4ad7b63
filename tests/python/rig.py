"""What the tests of the package share: a pool, a store that is set up, memory to read into."""

import ctypes
import os
import unittest

from pool import Pool
from wait import wait_for

from mooncake.store import MooncakeDistributedStore

PROGRAMS = os.environ["MOONCAKE_PROGRAMS"]


def open_store(pool, segment=0, hostname="localhost"):
    """A store that is set up. The caller closes it."""
    store = MooncakeDistributedStore()
    code = store.setup(hostname, "P2PHANDSHAKE", segment, 16 << 20, "tcp", "", pool.address)
    if code != 0:
        raise AssertionError(f"setup returns {code}")
    return store


def census(pid="self"):
    """Descriptors and threads of a process."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def await_no_more(before, pid="self"):
    """Wait until a process has no more of anything than in @before. It may have less: a count can
    meet a connection that is just being closed, and nobody tells when it is gone."""
    wait_for(f"process {pid} has no more descriptors and threads than {before}",
             lambda: all(now <= then for now, then in zip(census(pid), before)),
             tell=lambda: str(census(pid)))


def unread(port, sender="self"):
    """Bytes of a process that have come to a TCP port of this host and that nobody has taken yet.
    What others, such as stores that ping, have sent there does not count."""
    sockets = set()
    for name in os.listdir(f"/proc/{sender}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{sender}/fd/{name}"))
        except FileNotFoundError:  # closed meanwhile
            pass
    ours, waiting = set(), {}
    with open("/proc/net/tcp", encoding="ascii") as file:
        for line in file.readlines()[1:]:
            words = line.split()
            local, remote = (int(words[i].rpartition(":")[2], 16) for i in (1, 2))
            if f"socket:[{words[9]}]" in sockets:
                ours.add(local)
            if local == port and words[3] == "01":  # established
                waiting[remote] = int(words[4].rpartition(":")[2], 16)
    return sum(count for remote, count in waiting.items() if remote in ours)


class Memory:
    """Bytes with an address."""

    def __init__(self, size_or_bytes):
        self.array = (ctypes.create_string_buffer(size_or_bytes) if isinstance(size_or_bytes, int)
                      else ctypes.create_string_buffer(size_or_bytes, len(size_or_bytes)))
        self.ptr = ctypes.addressof(self.array)
        self.size = len(self.array)

    def __bytes__(self):
        return self.array.raw


class PoolTest(unittest.TestCase):
    """One pool of 256 MiB and one store for all tests of the class; each begins with no keys."""

    segments = ("256MiB",)
    master_options = ()

    @classmethod
    def setUpClass(cls):
        cls.pool = Pool(PROGRAMS, cls.segments, cls.master_options)
        cls.addClassCleanup(cls.pool.close)
        cls.store = open_store(cls.pool)
        cls.addClassCleanup(cls.store.close)

    def setUp(self):
        self.store.remove_all(True)
