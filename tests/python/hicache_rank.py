"""One rank of SGLang's HiCache: started by test_engines.py with the master's address, a rank, and how
the cache is laid out: "mha" (K and V apart, each rank its own), "mla" (one object a page, written by
rank 0, read by all) or "split" (K and V of two groups of heads, so that other TP sizes can read)."""

import sys
import threading
import time
import uuid

from rig import Memory

from mooncake.store import MooncakeDistributedStore

PAGE = 64 << 10
PAGES = 24
THREADS = 4
ROUNDS = 3
SECONDS_MAX = 60


def names_of(layout, rank, thread):
    """Keys of a thread's prompt, page by page. Threads of a rank have prompts of their own."""
    if layout == "mla":
        suffixes = ["k"]
    elif layout == "mha":
        suffixes = [f"{rank}_{kind}" for kind in "kv"]
    else:
        suffixes = [f"{2 * rank + group}_{kind}" for group in range(2) for kind in "kv"]
    return [f"{layout}-{thread}-{page:032x}_{suffix}" for page in range(PAGES)
            for suffix in suffixes]


def value_of(key):
    """What everybody agrees a key's value to be."""
    return f"{key:>64}".encode() * (PAGE // 64)


class Rank:
    """The calls that HiCache's back end makes."""

    def __init__(self, store, layout, rank):
        self.store, self.layout, self.rank = store, layout, rank
        self.failures = []

    def prefix(self, keys):
        """How many of the first keys are there."""
        there = self.store.batch_is_exist(keys)
        return next((i for i, exists in enumerate(there) if exists != 1), len(keys))

    def set(self, keys, pointers, sizes):
        """Put what is missing."""
        there = self.store.batch_is_exist(keys)
        missing = [i for i, exists in enumerate(there) if exists != 1]
        codes = self.store.batch_put_from([keys[i] for i in missing],
                                          [pointers[i] for i in missing],
                                          [sizes[i] for i in missing])
        if set(codes) - {0}:
            self.failures.append((keys[0], codes))

    def get(self, keys, pointers, sizes):
        """Read the prefix that is there; how many keys it has."""
        count = self.prefix(keys)
        if self.store.batch_get_into(keys[:count], pointers[:count], sizes[:count]) != \
                sizes[:count]:
            self.failures.append((keys[0], "get"))
        return count

    def work(self, thread):
        """A prompt: set, and get until all of it is there."""
        keys = names_of(self.layout, self.rank, thread)
        values = b"".join(value_of(key) for key in keys)
        memory = Memory(len(values))
        if self.store.register_buffer(memory.ptr, memory.size) != 0:
            self.failures.append("register_buffer")
        pointers = [memory.ptr + i * PAGE for i in range(len(keys))]
        sizes = [PAGE] * len(keys)
        for _ in range(ROUNDS):
            if self.layout != "mla" or self.rank == 0:
                memory.array.raw = values
                self.set(keys, pointers, sizes)
            memory.array.raw = bytes(memory.size)
            deadline = time.monotonic() + SECONDS_MAX
            while self.get(keys, pointers, sizes) < len(keys) and time.monotonic() < deadline:
                pass
            if bytes(memory) != values:
                self.failures.append((keys[0], "bytes"))
        self.store.unregister_buffer(memory.ptr)


def main():
    """0 if all was well."""
    address, rank, layout = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    store = MooncakeDistributedStore()
    if store.setup("localhost", "P2PHANDSHAKE", 64 << 20, 16 << 20, "tcp", "", address) != 0:
        return 1
    warm_up, value = "warm-up-" + uuid.uuid4().hex, bytes(4096)
    if (store.put(warm_up, value), store.is_exist(warm_up), store.get(warm_up)) != (0, 1, value):
        return 2
    work = Rank(store, layout, rank)
    threads = [threading.Thread(target=work.work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(work.failures or "ok", flush=True)
    sys.stdin.readline()  # the other rank's objects may lie in this one's segment
    cleared = store.remove_all()  # leased objects stay
    store.close()
    return 1 if work.failures or cleared < 0 else 0


if __name__ == "__main__":
    sys.exit(main())
