#!/usr/bin/env python3
"""Each program of docs/examples runs on a real pool, ends with 0 and prints what it says it prints.

usage: test_examples.py SOURCE_ROOT BIN EXAMPLES"""

import os
import re
import subprocess
import sys

ROOT, BIN, EXAMPLES = sys.argv[1:4]
sys.path.insert(0, os.path.join(ROOT, "tests/cli"))
from pool import Pool  # noqa: E402


def promised(path):
    """Lines under "Prints:", as regular expressions; "..." stands for anything."""
    with open(path, encoding="utf-8") as file:
        match = re.search(r"\n \* Prints:\n((?: \*     .*\n)+) \*/", file.read())
    assert match, f"{path}: says nothing under \"Prints:\""
    lines = [line[len(" *     "):] for line in match[1].splitlines()]
    return [re.escape(line).replace(re.escape("..."), ".+") for line in lines]


def main():
    folder = os.path.join(ROOT, "docs/examples")
    names = sorted(name[:-2] for name in os.listdir(folder) if name.endswith(".c"))
    assert len(names) >= 10, names
    with Pool(BIN) as pool:
        store = pool.add_store("64MiB", "--serve_clients")
        server = f"127.0.0.1:{store.ports()['serve_port']}"
        for name in names:
            done = subprocess.run([os.path.join(EXAMPLES, name)], capture_output=True, text=True,
                                  timeout=120, check=False,
                                  env={**os.environ, "MOONCAKE_MASTER": pool.address,
                                       "MOONCAKE_SERVER": server})
            told = f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            assert done.returncode == 0, told
            lines, wanted = done.stdout.splitlines(), promised(os.path.join(folder, name + ".c"))
            assert len(lines) == len(wanted), told
            for line, pattern in zip(lines, wanted):
                assert re.fullmatch(pattern, line), f"{pattern!r} is not what it prints; {told}"
    print(f"examples: {len(names)} run as they say")


if __name__ == "__main__":
    sys.exit(main())
