#!/usr/bin/env python3
"""Measures the Python package: what a call costs above the C library, and the loads that engines make.

    python_bench.py convert                       lists of 262,144 addresses and sizes into C arrays
    python_bench.py calls [--master HOST:PORT]    a call and an item of a batch, without the pool's work
    python_bench.py loads --master HOST:PORT      puts and gets in the shapes of SGLang, vLLM, LMCache

`loads` needs a pool with room for all processes: see --help. Keys begin with pybench/ and are removed.
Figures are of this machine at this moment; --json gives them to programs.
"""

import argparse
import array
import ctypes
import json
import mmap
import multiprocessing
import os
import statistics
import sys
import time

from mooncake.store import MooncakeDistributedStore

MIB = 1 << 20
POINTERS = 262144
KEYS = 2048

# Name, bytes an object, objects a call, pieces an object (more than one: multi-buffer calls).
LOADS = (
    ("llama3-70b-tp8", 1310720, 256, 1),
    ("qwen3-32b-tp4", 2097152, 256, 1),
    ("deepseek-v3-mla", 4497408, 128, 1),
    ("qwen3-32b-vllm", 1048576, 512, 128),
    ("lmcache-256", 16 * MIB, 128, 1),
    ("embeddings", 100 * MIB, 2, 1),
)


def best_of(count, work, clock=time.thread_time):
    """Least seconds that @work takes: of this thread's processor time, unless told otherwise, so that
    other programs count little."""
    best = float("inf")
    for _ in range(count):
        begin = clock()
        work()
        best = min(best, clock() - begin)
    return best


def seconds_of(work):
    """What a clock on the wall says."""
    return best_of(1, work, time.perf_counter)


# ---- convert -----------------------------------------------------------------------------------


def convert(args):
    """A store that is not set up converts its arguments, and does nothing else."""
    store, per_key = MooncakeDistributedStore(), POINTERS // KEYS
    keys = [f"key {i}" for i in range(KEYS)]
    pointers = [[(1 << 40) + i * 8192 + k for k in range(per_key)] for i in range(KEYS)]
    sizes = [[8192] * per_key for _ in range(KEYS)]
    flat_keys = [f"key {i}" for i in range(POINTERS)]
    flat, flat_sizes = [pointer for row in pointers for pointer in row], [8192] * POINTERS
    shapes = {
        "lists of lists, 2,048 x 128": lambda: store.batch_get_into_multi_buffers(
            keys, pointers, sizes),
        "one list, with as many keys": lambda: store.batch_get_into(flat_keys, flat, flat_sizes),
    }
    kinds = [("arrays", lambda row: array.array("Q", row))]
    try:
        import numpy  # pylint: disable=import-outside-toplevel
        kinds.append(("numpy arrays", lambda row: numpy.array(row, dtype=numpy.uint64)))
    except ImportError:
        pass
    for name, make in kinds:
        rows, row_sizes = [make(row) for row in pointers], [make(row) for row in sizes]
        shapes[f"lists of {name}, 2,048 x 128"] = \
            lambda rows=rows, row_sizes=row_sizes: store.batch_get_into_multi_buffers(
                keys, rows, row_sizes)
    return [{"what": f"262,144 addresses and sizes: {name}",
             "ms": best_of(4 * args.rounds, work) * 1e3, "limit_ms": 15 if "x 128" in name else None}
            for name, work in shapes.items()]


# ---- calls -------------------------------------------------------------------------------------


def per_call(work, count, rounds=7):
    """Least microseconds of one call."""
    def many():
        for _ in range(count):
            work()

    return best_of(rounds, many) / count * 1e6


def calls(args):
    """Single calls, and what an item adds, on a store that answers at once: it is not set up."""
    store = MooncakeDistributedStore()
    rows = []
    for name, work in (("is_exist", lambda: store.is_exist("key")),
                       ("get_into", lambda: store.get_into("key", 1 << 40, 4096)),
                       ("put_from", lambda: store.put_from("key", 1 << 40, 4096))):
        rows.append({"what": f"{name}: arguments and result", "us": per_call(work, 20000, args.rounds),
                     "limit_us": 2})
    few, many = 8, 2048
    keys = [f"a key of the usual length, about so many bytes {i:060d}" for i in range(many)]
    pointers, sizes = [(1 << 40) + i for i in range(many)], [4096] * many
    for name, work in (
            ("batch_is_exist", lambda n: store.batch_is_exist(keys[:n])),
            ("batch_get_into", lambda n: store.batch_get_into(keys[:n], pointers[:n], sizes[:n])),
            ("batch_put_from", lambda n: store.batch_put_from(keys[:n], pointers[:n], sizes[:n]))):
        small, large = (per_call(lambda: work(few), 5000, args.rounds),
                        per_call(lambda: work(many), 100, args.rounds))
        rows.append({"what": f"{name}: an item of a batch",
                     "ns": (large - small) / (many - few) * 1e3, "limit_ns": 60})
    if args.master:
        if store.setup("localhost", "P2PHANDSHAKE", 0, 0, "tcp", "", args.master) != 0:
            sys.exit("python_bench: the pool cannot be joined")
        rows.append({"what": "unregister_buffer of nothing: into the library and back",
                     "us": per_call(lambda: store.unregister_buffer(1), 20000, args.rounds), "limit_us": None})
        store.close()
    return rows


# ---- loads -------------------------------------------------------------------------------------


class Worker:
    """One rank: its own objects, in memory of its own."""

    def __init__(self, args, load, rank):
        self.name, self.size, count, self.pieces = load
        self.count = max(1, min(count, args.bytes // self.size))
        self.keys = [f"pybench/{args.run}/{self.name}/{rank}/{i}" for i in range(self.count)]
        self.map = mmap.mmap(-1, self.size * self.count)
        self.memory = ctypes.c_char.from_buffer(self.map)
        self.base = ctypes.addressof(self.memory)
        self.pointers = [self.base + i * self.size for i in range(self.count)]
        self.sizes = [self.size] * self.count
        piece = self.size // self.pieces
        self.all_pointers = [[pointer + k * piece for k in range(self.pieces)]
                             for pointer in self.pointers]
        self.all_sizes = [[piece] * self.pieces for _ in self.pointers]
        self.store = MooncakeDistributedStore()
        if self.store.setup("localhost", "P2PHANDSHAKE", 0, 0, "tcp", "", args.master) != 0:
            raise RuntimeError("the pool cannot be joined")
        self.store.register_buffer(self.base, len(self.map))

    def fill(self, seed):
        """Bytes of which no two blocks are alike."""
        block = os.urandom(MIB)
        for at in range(0, len(self.map), MIB):
            part = block[:len(self.map) - at]
            self.map[at:at + len(part)] = part
            self.map[at:at + 16] = (seed + at).to_bytes(16, "little")

    def put(self):
        """As engines do: ask, then put what is missing."""
        there = self.store.batch_is_exist(self.keys)
        if any(there):
            raise RuntimeError("a key is there already")
        codes = self.store.batch_put_from(self.keys, self.pointers, self.sizes) \
            if self.pieces == 1 else \
            self.store.batch_put_from_multi_buffers(self.keys, self.all_pointers, self.all_sizes)
        if set(codes) != {0}:
            raise RuntimeError(f"put: {sorted(set(codes))}: is the pool large enough?")

    def get(self):
        """Ask, then get all."""
        if self.store.batch_is_exist(self.keys) != [1] * self.count:
            raise RuntimeError("a key is gone")
        lengths = self.store.batch_get_into(self.keys, self.pointers, self.sizes) \
            if self.pieces == 1 else \
            self.store.batch_get_into_multi_buffers(self.keys, self.all_pointers, self.all_sizes)
        if lengths != self.sizes:
            raise RuntimeError(f"get: {sorted(set(lengths) - {self.size})}")

    def check(self):
        """The bytes come back."""
        before = bytes(self.map)
        self.map[:] = bytes(len(self.map))
        self.get()
        if bytes(self.map) != before:
            raise RuntimeError("the bytes are not those that were put")

    def close(self):
        """Leave nothing behind."""
        self.store.batch_remove(self.keys, True)
        self.store.close()


def run_rank(args, load, rank, barrier, results):
    """Seconds of each call, in a process of its own."""
    try:
        worker = Worker(args, load, rank)
        puts, gets = [], []
        for round_ in range(args.rounds):
            worker.fill(round_ << 64 | rank << 96)
            barrier.wait(120)
            puts.append(seconds_of(worker.put))
            if round_ == 0:
                worker.check()
            barrier.wait(120)
            gets.append(seconds_of(worker.get))
            barrier.wait(120)
            worker.store.batch_remove(worker.keys, True)
        worker.close()
        results.put((worker.count, puts, gets, None))
    except Exception as error:  # pylint: disable=broad-except
        barrier.abort()
        results.put((0, [], [], f"{load[0]}: {error}"))


def run_load(args, load, processes):
    """One row: all ranks at once."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(processes), context.Queue()
    ranks = [context.Process(target=run_rank, args=(args, load, rank, barrier, results))
             for rank in range(processes)]
    for rank in ranks:
        rank.start()
    answers = [results.get(timeout=600) for _ in ranks]
    for rank in ranks:
        rank.join()
    errors = [answer[3] for answer in answers if answer[3] and "BrokenBarrier" not in answer[3]]
    if errors or any(answer[3] for answer in answers):
        sys.exit("python_bench: " + (errors or ["a rank has failed"])[0])
    count = answers[0][0]
    row = {"what": load[0], "processes": processes, "object_bytes": load[1], "objects": count}
    for i, name in ((1, "put"), (2, "get")):
        slowest = [max(times) for times in zip(*(answer[i] for answer in answers))]
        row[name + "_ms"] = statistics.median(t for answer in answers for t in answer[i]) * 1e3
        row[name + "_gb_s"] = processes * count * load[1] / statistics.median(slowest) / 1e9
    return row


def loads(args):
    """All loads, each with the numbers of processes asked for."""
    wanted = [load for load in LOADS if not args.only or load[0] in args.only.split(",")]
    if not wanted or not args.master:
        sys.exit("python_bench: loads needs --master, and --only among "
                 + ", ".join(load[0] for load in LOADS))
    return (run_load(args, load, int(processes)) for load in wanted
            for processes in args.processes.split(","))


# ---- report ------------------------------------------------------------------------------------


def show(row):
    """A row as a line."""
    parts = []
    for name, value in row.items():
        if name == "what":
            parts.insert(0, f"{value:<58}")
        elif not name.startswith("limit"):
            text = f"{value:.2f}" if isinstance(value, float) else str(value)
            parts.append(f"{name} {text}")
        elif value is not None:
            parts.append(f"(at most {value})")
    return "  ".join(parts)


def main():
    """0, also where a figure is above its limit: machines differ."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("convert", "calls", "loads"))
    parser.add_argument("--master", default=os.environ.get("MOONCAKE_MASTER"), help="HOST:PORT")
    parser.add_argument("--processes", default="1,4,8", help="of loads (1,4,8)")
    parser.add_argument("--only", help="names of loads, with commas")
    parser.add_argument("--bytes", type=int, default=256 * MIB,
                        help="of one call of one process at most (256 MiB): fewer objects, not "
                        "smaller ones, so the largest object counts once at least")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.run = f"{os.getpid()}-{time.time_ns()}"
    for row in {"convert": convert, "calls": calls, "loads": loads}[args.what](args):
        print(json.dumps(row) if args.json else show(row), flush=True)


if __name__ == "__main__":
    main()
