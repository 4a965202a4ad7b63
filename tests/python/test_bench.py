"""tools/bench/python_bench.py runs, and says what it measured."""

import json
import os
import subprocess
import sys
import unittest

from rig import PROGRAMS

from pool import Pool

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench",
                     "python_bench.py")


def bench(*args):
    """Status, and the rows."""
    done = subprocess.run([sys.executable, "-B", BENCH, *args, "--json"], stdout=subprocess.PIPE,
                          text=True, timeout=150, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


class Bench(unittest.TestCase):
    """Small runs. Figures are judged by far more than a machine under load needs."""

    def test_conversions_and_calls(self):
        status, rows = bench("convert", "--rounds=1")
        self.assertEqual(status, 0)
        lists = next(row for row in rows if "lists of lists" in row["what"])
        self.assertLess(lists["ms"], 10 * lists["limit_ms"])
        print(f"262,144 addresses and sizes: {lists['ms']:.1f} ms")
        status, rows = bench("calls", "--rounds=2")
        self.assertEqual(status, 0)
        self.assertGreater(len(rows), 5)
        for row in rows:
            unit = "us" if "us" in row else "ns"
            self.assertGreater(row[unit], 0)
            self.assertLess(row[unit], 20 * row["limit_" + unit], row)

    def test_loads_check_what_they_read_and_leave_nothing(self):
        with Pool(PROGRAMS, ("64MiB",)) as pool:
            status, rows = bench("loads", "--master", pool.address, "--bytes=2097152", "--rounds=1",
                                 "--processes=2", "--only=llama3-70b-tp8,qwen3-32b-vllm")
            self.assertEqual(status, 0)
            self.assertEqual([(row["what"], row["processes"], row["objects"]) for row in rows],
                             [("llama3-70b-tp8", 2, 1), ("qwen3-32b-vllm", 2, 2)])
            self.assertTrue(all(row["put_gb_s"] > 0 and row["get_ms"] > 0 for row in rows))
            keys = subprocess.run([os.path.join(PROGRAMS, "mooncakectl"), "--master", pool.address,
                                   "ls"], stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertNotIn("pybench/", keys)

    def test_a_pool_that_is_too_small_is_said(self):
        with Pool(PROGRAMS, ("16MiB",)) as pool:
            status, rows = bench("loads", "--master", pool.address, "--only=lmcache-256",
                                 "--processes=2", "--rounds=1", "--bytes=1")
            self.assertEqual((status, rows), (1, []))
        self.assertEqual(bench("loads", "--master", "x:1", "--only=nothing")[0], 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
