"""One rank of SGLang's HiCache: started by test_engines.py with the master's address and a rank."""

import sys
import threading
import uuid

from rig import Memory

from mooncake.store import MooncakeDistributedStore

PAGE = 64 << 10
PAGES = 24


def work(store, rank, thread, failures):
    """K and V objects of some pages: set what is missing, read all, compare."""
    memory = Memory(2 * PAGES * PAGE)
    keys, pointers, values = [], [], []
    for i in range(PAGES):
        for kind, name in enumerate("kv"):
            keys.append(f"{thread}-{i}_{rank}_{name}")
            pointers.append(memory.ptr + (2 * i + kind) * PAGE)
            values.append(f"{keys[-1]:>64}".encode() * (PAGE // 64))
    sizes = [PAGE] * len(keys)
    for _ in range(3):
        memory.array.raw = b"".join(values)
        there = store.batch_is_exist(keys)
        missing = [i for i, exists in enumerate(there) if exists != 1]
        codes = store.batch_put_from([keys[i] for i in missing], [pointers[i] for i in missing],
                                     [sizes[i] for i in missing])
        memory.array.raw = bytes(memory.size)
        if set(codes) - {0} or store.batch_is_exist(keys) != [1] * len(keys):
            failures.append((keys[0], codes))
        elif store.batch_get_into(keys, pointers, sizes) != sizes or \
                bytes(memory) != b"".join(values):
            failures.append((keys[0], "bytes"))


def main():
    """0 if all was well."""
    store = MooncakeDistributedStore()
    if store.setup("localhost", "P2PHANDSHAKE", 16 << 20, 0, "tcp", "", sys.argv[1]) != 0:
        return 1
    warm_up, value = "warm-up-" + uuid.uuid4().hex, bytes(4096)
    if (store.put(warm_up, value), store.is_exist(warm_up), store.get(warm_up)) != (0, 1, value):
        return 2
    failures = []
    threads = [threading.Thread(target=work, args=(store, sys.argv[2], i, failures))
               for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(failures or "ok", flush=True)
    sys.stdin.readline()  # the other rank's objects may lie in this one's segment
    cleared = store.remove_all()  # leased objects stay
    store.close()
    return 1 if failures or cleared < 0 else 0


if __name__ == "__main__":
    sys.exit(main())
