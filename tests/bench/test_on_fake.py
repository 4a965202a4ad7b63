#!/usr/bin/env python3
"""mooncake_bench on a client library that keeps values in the process (fake_client.c): its hit
ratios must be those of the model, its judgement must find a pool that lies, and its words must
help."""

import json
import os
import subprocess
import sys
import unittest

import workload
from workload import lru_hits

BENCH = ""
TRACE = os.environ.get("MOONCAKE_TEST_TRACE", "")


def bench(*args, timeout=100):
    environment = {key: value for key, value in os.environ.items() if key != "MOONCAKE_MASTER"}
    return subprocess.run([BENCH, *args], capture_output=True, text=True, timeout=timeout,
                          env=environment, check=False)


def bench_json(*args, status=0):
    done = bench(*args, "--json", "--no-limits")
    assert done.returncode == status, (done.returncode, done.stderr)
    return json.loads(done.stdout)


class WithTrace(unittest.TestCase):
    def setUp(self):
        self.requests = workload.requests(300)
        self.trace = workload.write_trace(self.requests)
        self.addCleanup(os.unlink, self.trace)
        self.blocks = sum(map(len, self.requests))


class Replay(WithTrace):
    def replay(self, master, *args, status=0):
        return bench_json("replay", "--trace", self.trace, "--master", master, *args,
                          status=status)

    def test_unlimited_pool_gives_the_models_hits(self):
        result = self.replay("fake")
        self.assertEqual(result["hits"], lru_hits(self.requests, 10 ** 9))
        self.assertEqual(result["models"][-1]["hits"], result["hits"])
        self.assertEqual(result["blocks"], self.blocks)
        self.assertEqual(result["verified_bytes"], result["hits"] * 4096)
        self.assertEqual(result["put"]["keys"], result["distinct_blocks"])

    def test_hits_do_not_depend_on_the_batch(self):
        expected = lru_hits(self.requests, 10 ** 9)
        for batch in ("1", "3", "8192"):
            self.assertEqual(self.replay("fake", "--batch", batch)["hits"], expected)

    def test_small_lru_pool_gives_the_models_hits(self):
        for capacity in (50, 200, 400):
            result = self.replay(f"fake:lru={capacity}", "--capacity", str(capacity))
            expected = lru_hits(self.requests, capacity)
            by_what = {model["what"]: model for model in result["models"]}
            self.assertEqual(by_what["as asked for"]["hits"], expected)
            self.assertEqual(by_what["the whole pool"]["capacity_blocks"], capacity)
            self.assertEqual(by_what["the whole pool"]["hits"], expected)
            self.assertEqual(by_what["the pool where eviction begins"]["capacity_blocks"],
                             capacity // 2)
            self.assertEqual(by_what["the pool where eviction ends"]["capacity_blocks"],
                             capacity * 2 // 5)
            self.assertEqual(result["hits"], expected)

    def test_block_behind_a_gap_is_put_again_and_found_there(self):
        trace = workload.write_trace([[1], [2], [3], [9], [1, 3]])
        self.addCleanup(os.unlink, trace)
        result = bench_json("replay", "--trace", trace, "--master", "fake:lru=3")
        self.assertEqual((result["hits"], result["present"], result["put"]["keys"]), (0, 1, 5))

    def test_full_pool_refuses_and_nothing_fails(self):
        result = self.replay("fake:full=100")
        self.assertGreater(result["refused"], 0)
        self.assertEqual(result["put"]["keys"], 100)

    def test_vanished_blocks_are_misses_and_put_again(self):
        result = self.replay("fake:vanish=0")
        self.assertEqual(result["hits"], 0)
        self.assertGreater(result["vanished"], 0)
        self.assertEqual(result["errors"], 0)

    def test_lies_are_found(self):
        words = {"flip": "is wrong: word", "stale": "is wrong", "swap": "is wrong",
                 "short": "4095 bytes long, not 4096"}
        for lie, word in words.items():
            for number in (0, 500):
                result = self.replay(f"fake:{lie}={number}", status=3)
                self.assertEqual(result["wrong"], 1, lie)
                self.assertIn(word, result["first_error"])

    def test_dead_pool_is_given_up(self):
        result = self.replay("fake:dead=30", status=1)
        self.assertFalse(result["complete"])
        self.assertIn("fake:dead is gone", result["first_error"])
        self.assertLess(result["exist"]["calls"] + result["get"]["calls"] +
                        result["put"]["calls"], 60)

    def test_no_pool_is_told_with_its_address(self):
        done = bench("replay", "--trace", self.trace, "--master", "nobody:1", "--no-limits")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody:1", done.stderr)

    def test_table_names_what_was_measured(self):
        done = bench("replay", "--trace", self.trace, "--master", "fake", "--no-limits")
        self.assertEqual(done.returncode, 0, done.stderr)
        hits = lru_hits(self.requests, 10 ** 9)
        self.assertIn(f"{hits / self.blocks:.4f}   {hits} of {self.blocks} blocks", done.stdout)
        for word in ("batch_exist", "batch_get_into", "batch_put", "exact LRU", "0 wrong"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("\r", done.stderr)

    def test_offline_needs_no_pool(self):
        result = bench_json("replay", "--trace", self.trace, "--offline", "--capacity", "50,200",
                            "--master", "nobody:1")
        self.assertEqual([model["hits"] for model in result["models"]],
                         [lru_hits(self.requests, n) for n in (50, 200, 10 ** 9)])

    def test_chat_is_the_same_for_a_seed(self):
        args = ("replay", "--master", "fake", "--requests", "200", "--block-bytes", "512")
        first = bench_json(*args, "--seed", "5")
        self.assertEqual(first["hits"], bench_json(*args, "--seed", "5")["hits"])
        self.assertEqual(first["hits"], first["models"][-1]["hits"])
        self.assertNotEqual(first["hits"], bench_json(*args, "--seed", "6")["hits"])

    @unittest.skipUnless(TRACE, "MOONCAKE_TEST_TRACE names no trace")
    def test_published_trace_gives_the_published_ratios(self):
        published = {1000: 0.0445, 3000: 0.0650, 10000: 0.2112, 30000: 0.3257, 50000: 0.3546,
                     100000: 0.3637, 0: 0.3664}
        result = bench_json("replay", "--trace", TRACE, "--master", "fake", "--block-bytes", "64",
                            "--capacity", ",".join(str(n) for n in published if n))
        self.assertEqual({model["capacity_blocks"]: round(model["hit_ratio"], 4)
                          for model in result["models"]}, published)
        self.assertEqual(round(result["hit_ratio"], 4), 0.3664)


class Io(unittest.TestCase):
    CASES = ("--sizes", "0,100,5000", "--batches", "1,7", "--time", "20ms", "--working-set",
             "1MiB")

    def test_each_operation_runs_and_verifies(self):
        result = bench_json("io", "--master", "fake", *self.CASES, "--ops",
                            "put,get,view,mix,exist,miss,size,remove")
        self.assertEqual(len(result["cases"]), 3 * 2 * 8)
        for case in result["cases"]:
            self.assertGreater(case["calls"], 0, case)
            self.assertEqual(case["errors"], 0, case)
            self.assertEqual(case["keys"], case["calls"] * case["batch"])
            if case["op"] in ("get", "view"):
                self.assertEqual(case["verified_bytes"], case["keys"] * case["value_bytes"])

    def test_threads_and_processes_add_up(self):
        result = bench_json("io", "--master", "fake", "--sizes", "4KiB", "--batches", "4", "--time",
                            "30ms", "--threads", "3", "--processes", "2", "--working-set", "1MiB",
                            "--ops", "mix")
        case = result["cases"][0]
        self.assertGreaterEqual(case["calls"], 6)
        self.assertEqual(result["wrong"] + result["errors"], 0)

    def test_lies_are_found(self):
        for lie in ("flip", "stale", "swap", "short"):
            for batch, op in (("1", "get"), ("5", "get"), ("1", "view"), ("5", "view")):
                result = bench_json("io", "--master", f"fake:{lie}=2", "--sizes", "5000",
                                    "--batches", batch, "--time", "20ms", "--ops", op,
                                    "--working-set", "1MiB", status=3)
                self.assertEqual(result["wrong"], 1, (lie, op))

    def test_full_pool_fails_with_its_reason(self):
        result = bench_json("io", "--master", "fake:full=3", *self.CASES, "--ops", "get", status=1)
        self.assertIn("ENOSPACE", result["first_error"])

    def test_no_pool_fails_with_its_address(self):
        for command in ("io", "peers"):
            done = bench(command, "--master", "nobody:1", "--json")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("nobody:1", done.stderr)

    def test_meta_runs(self):
        result = bench_json("meta", "--master", "fake", "--time", "20ms", "--keys", "600")
        self.assertEqual({case["batch"] for case in result["cases"]}, {1, 512})
        self.assertEqual({case["op"] for case in result["cases"]},
                         {"exist", "miss", "size", "put", "get", "remove"})
        for case in result["cases"]:
            self.assertGreater(case["keys_per_s"], 0)

    def test_ratios_are_of_the_limits(self):
        done = bench("io", "--master", "fake", "--sizes", "1MiB", "--batches", "1", "--time",
                     "100ms", "--json", "--ops", "get", "--working-set", "4MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        case = result["cases"][0]
        beside = case["beside"]
        for limits in (result["limits"], beside):
            for name, value in limits.items():
                self.assertGreater(value, 0, name)
        for ratio, limit in (("x_copy_xxh3", "copy_xxh3_bytes_per_s"),
                             ("x_tcp_stream", "tcp_stream_bytes_per_s"),
                             ("x_tcp_stream2", "tcp_stream2_bytes_per_s")):
            self.assertAlmostEqual(case[ratio], case["bytes_per_s"] / beside[limit], 6)
        self.assertAlmostEqual(case["x_tcp_trip"], case["p50_ns"] / beside["tcp_trip_p50_ns"], 6)
        self.assertAlmostEqual(case["x_tcp_1mib"], case["p50_ns"] /
                               (beside["tcp_1mib_p50_ns"] + beside["tcp_trip_p50_ns"]), 6)

    def test_repeated_cases_show_one_of_the_runs_and_count_all(self):
        result = bench_json("io", "--master", "fake", "--sizes", "4KiB", "--batches", "4",
                            "--time", "20ms", "--ops", "get", "--working-set", "1MiB",
                            "--repeat", "5")
        self.assertEqual((len(result["cases"]), result["repeat"]), (1, 5))
        self.assertGreater(result["verified_bytes"], result["cases"][0]["verified_bytes"])
        self.assertEqual(result["wrong"] + result["errors"], 0)

    def test_lies_of_any_run_are_found(self):
        result = bench_json("io", "--master", "fake:flip=2", "--sizes", "5000", "--batches", "5",
                            "--time", "20ms", "--ops", "get", "--working-set", "1MiB",
                            "--repeat", "3", status=3)
        self.assertEqual(result["wrong"], 3) # one in each process of workers


class Words(unittest.TestCase):
    def test_bad_command_lines_name_the_fault(self):
        faults = [
            ((), "usage"),
            (("reply",), "no command \"reply\""),
            (("io", "--sizs", "1"), "unknown option --sizs"),
            (("io", "--sizes", "4XB"), "--sizes: \"4XB\""),
            (("io", "--sizes", "1,,2"), "--sizes"),
            (("io", "--sizes", ",".join(["1"] * 17)), "at most 16"),
            (("io", "--sizes"), "--sizes needs a value"),
            (("io", "--batches", "0"), "0 is not in 1 to 8192"),
            (("io", "--json=yes"), "--json takes no value"),
            (("io", "--ops", "put,fly"), "\"fly\" is not one of"),
            (("io", "--timeout", "soon"), "\"soon\" is not a time"),
            (("io", "--verify", "half"), "\"half\" is not full"),
            (("io", "--sizes", "1TiB", "--batches", "8192"), "more than 64 GiB"),
            (("io", "now"), "what is \"now\""),
            (("replay", "--capacity", "1,x"), "--capacity"),
            (("replay", "--prefix", ""), "--prefix"),
            (("replay", "--block-bytes", "1GiB"), "more than 16 GiB"),
        ]
        for args, word in faults:
            done = bench(*args, *(("--master", "fake") if args and args[0] != "reply" and
                                  args[-1] != "--sizes" else ()))
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_missing_trace_is_named(self):
        done = bench("replay", "--offline", "--trace", "/nowhere/trace.jsonl")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/trace.jsonl: No such file", done.stderr)

    def test_help_lists_commands_and_options(self):
        self.assertIn("replay", bench("--help").stdout)
        for command in ("replay", "io", "meta", "limits"):
            done = bench(command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("--json", done.stdout)
            self.assertLess(max(map(len, done.stdout.splitlines())), 120)

    def test_underscores_and_equal_signs_are_taken(self):
        result = bench_json("io", "--master=fake", "--sizes=1K", "--batches=2", "--time=10ms",
                            "--working_set=64KiB", "--ops=get")
        self.assertEqual(result["cases"][0]["value_bytes"], 1024)


if __name__ == "__main__":
    BENCH = sys.argv.pop(1)
    unittest.main()
