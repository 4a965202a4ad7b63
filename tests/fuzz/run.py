#!/usr/bin/env python3
"""The libFuzzer targets as tests.

  run.py build SOURCE TREE        configure and build them all in TREE (preset fuzz)
  run.py fuzz SOURCE TREE NAME    run one for MOONCAKE_FUZZ_SECONDS (10), from its seeds

SOURCE is tests/fuzz. What the fuzzer learns is kept in TREE/corpus/NAME, what it finds in
TREE/finds/NAME; nothing is written into the source tree. Exit status 77: there is no libFuzzer.
"""

import os
import subprocess
import sys
import tempfile

SKIP = 77
SECONDS = "MOONCAKE_FUZZ_SECONDS"
INPUT_SECONDS_MAX = 60  # one input; generous, for machines that do much else
MEMORY_MB_MAX = 2048
# Beyond its time: reading the corpus, the last input, and a busy machine.
GRACE_SECONDS = 300


def missing():
    """Why there can be no fuzzing here, or None."""
    program = "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const unsigned char *, size_t);\n" \
              "int LLVMFuzzerTestOneInput(const unsigned char *b, size_t n)" \
              "{ (void)b; (void)n; return 0; }\n"
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "probe.c")
        with open(source, "w") as out:
            out.write(program)
        try:
            done = subprocess.run(
                ["clang", "-fsanitize=fuzzer,address,undefined", "-o",
                 os.path.join(directory, "probe"), source], capture_output=True, text=True)
        except FileNotFoundError:
            return "there is no clang; tools/setup test installs it"
    if done.returncode != 0:
        return "clang cannot link libFuzzer (libclang-rt-14-dev has it):\n" + done.stderr
    return None


def build(source, tree):
    why = missing()
    if why is not None:
        print("skipped:", why)
        return SKIP
    top = os.path.dirname(os.path.dirname(source))
    for command in (["cmake", "--preset", "fuzz", "-B", tree],
                    ["cmake", "--build", tree, "--target", "fuzz_targets", "-j", "2"]):
        done = subprocess.run(command, cwd=top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        if done.returncode != 0:
            print(" ".join(command), "failed:\n" + done.stdout)
            return 1
    return 0


def tail(path, lines):
    with open(path, errors="replace") as log:
        return "".join(log.readlines()[-lines:])


def replay(program, name, path):
    print(f"found: {path}\nreplay: {program} {path}\n"
          f"mended? keep it: cp {path} tests/fuzz/seeds/{name}/")


def fuzz(source, tree, name):
    program = os.path.join(tree, "tests", "fuzz", "fuzz_" + name)
    seconds = int(os.environ.get(SECONDS, "10"))
    corpus = os.path.join(tree, "corpus", name)
    finds = os.path.join(tree, "finds", name)
    log = os.path.join(tree, f"fuzz_{name}.log")
    if not os.path.exists(program):
        why = missing()
        print("skipped:" if why else "not built:", why or program)
        return SKIP if why else 1
    os.makedirs(corpus, exist_ok=True)
    os.makedirs(finds, exist_ok=True)
    before = set(os.listdir(finds))
    command = [program, f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS_MAX}",
               f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={finds}/",
               "-print_final_stats=1", corpus, os.path.join(source, "seeds", name)]
    with open(log, "w") as out:
        try:
            status = subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                    timeout=seconds + GRACE_SECONDS).returncode
        except subprocess.TimeoutExpired:
            print(tail(log, 40) + f"fuzz_{name} did not end; its log: {log}")
            return 1
    found = [f for f in sorted(set(os.listdir(finds)) - before) if not f.startswith("slow-unit")]
    if status == 0 and not found:
        print(tail(log, 8))
        return 0
    print(tail(log, 60) + f"fuzz_{name} ended with status {status}; its log: {log}")
    for find in found:
        replay(program, name, os.path.join(finds, find))
    return 1


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "build":
        return build(*arguments[1:])
    if len(arguments) == 4 and arguments[0] == "fuzz":
        return fuzz(*arguments[1:])
    print(__doc__)
    return 2


sys.exit(main(sys.argv[1:]))
