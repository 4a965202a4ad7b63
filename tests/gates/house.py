#!/usr/bin/env python3
"""Gate: a need that points upward or sideways stops the configure step. Runs CMake on scratch
projects that include cmake/MooncakeHouse.cmake."""

import os
import subprocess
import sys
import tempfile

from csource import root_from_args

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(scratch LANGUAGES {languages})
include({house})
{body}
"""

# (name, CMake lines, what the message must say; None: must configure)
CASES = [
    ("upward", "mc_library(base SOURCES x.c NEEDS io)", "base (floor 0) must not need io"),
    ("sideways", "mc_library(rpc SOURCES x.c NEEDS transport)", "rpc (floor 2) must not need"),
    ("siblings on top", "mc_library(store SOURCES x.c NEEDS client)", "store (floor 4) must not"),
    ("itself", "mc_library(io SOURCES x.c NEEDS io)", "io (floor 1) must not need io"),
    ("payload in the master", "mc_library(master SOURCES x.c NEEDS transport)",
     "the master never touches a payload byte"),
    ("unknown need", "mc_library(io SOURCES x.c NEEDS cellar)", "cellar, which has no floor"),
    ("room without a floor", "mc_library(attic SOURCES x.c)", "attic has no floor"),
    ("downward",
     "add_library(mc_flags INTERFACE)\n"
     "mc_library(base SOURCES x.c)\n"
     "mc_library(io SOURCES x.c NEEDS base)", None),
]


def configure(root, body, languages):
    """Exit status and output of the configure step of a scratch project."""
    with tempfile.TemporaryDirectory() as scratch:
        house = os.path.join(os.path.abspath(root), "cmake/MooncakeHouse.cmake")
        with open(os.path.join(scratch, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(PROJECT.format(languages=languages, house=house, body=body))
        with open(os.path.join(scratch, "x.c"), "w", encoding="utf-8") as file:
            file.write("int mc_scratch;\n")
        result = subprocess.run(["cmake", "-S", scratch, "-B", os.path.join(scratch, "build")],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                check=False)
    return result.returncode, " ".join(result.stdout.split())


def main():
    root = root_from_args("house.py")
    failed = 0
    for name, body, message in CASES:
        # A refusal comes before any compiler is needed, and looking for one takes a second.
        status, output = configure(root, body, "C" if message is None else "NONE")
        good = status == 0 if message is None else status != 0 and message in output
        print(f"house: {name}: {'ok' if good else 'WRONG: ' + output}")
        failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
