#!/usr/bin/env python3
"""Gate: a header includes what it needs. Each public header compiles alone as C11 and as C++11,
each private one as C11."""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from csource import Finding, c_files, report

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
# A private header is full of declarations that this one file does not use.
PRIVATE = ["-Wno-unused-function", "-D_GNU_SOURCE", '-DMC_VERSION="0"']


def compile_alone(root, compiler, flags, header, suffix):
    """None, or a finding with the compiler's first complaint."""
    name = header.split("/", 1)[1]
    with tempfile.NamedTemporaryFile("w", suffix=suffix) as unit:
        # Twice, so that a missing include guard is found as well.
        unit.write(f'#include "{name}"\n#include "{name}"\ntypedef int not_an_empty_unit;\n')
        unit.flush()
        result = subprocess.run(
            compiler.split() + WARNINGS + flags + ["-I", "src", "-I", "include", unit.name],
            cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode == 0:
        return None
    complaints = [line for line in result.stdout.splitlines() if "error:" in line]
    first = complaints[0] if complaints else result.stdout.strip()
    line = 1
    for complaint in complaints:
        parts = complaint.split(":")
        if parts[0].endswith(name) and parts[1].isdigit():
            line, first = int(parts[1]), complaint
            break
    language = "C++11" if suffix == ".cc" else "C11"
    return Finding(header, line, f"does not compile alone as {language} ({first})",
                   "include what it uses, or declare the struct ahead")


def check(root, cc, cxx, more, python):
    jobs = []
    for header in c_files(root, ["include"]):
        if header.endswith(".h"):
            jobs.append((cc, ["-std=c11"] + more, header, ".c"))
            jobs.append((cxx, ["-std=c++11"] + more, header, ".cc"))
    for header in c_files(root, ["src"]):
        of_python = header.startswith("src/python/")
        if header.endswith(".h") and (python or not of_python):
            system = ["-isystem", python] if of_python else []
            jobs.append((cc, ["-std=c11"] + PRIVATE + more + system, header, ".c"))
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = pool.map(lambda job: compile_alone(root, *job), jobs)
    return [finding for finding in results if finding], len({job[2] for job in jobs})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("-I", dest="more", action="append", default=[], help="another include path")
    parser.add_argument("--python", help="folder of Python.h; without, src/python is not tried")
    args = parser.parse_args()
    more = [word for path in args.more if path for word in ("-I", os.path.abspath(path))]
    for what, compiler in (("C", args.cc), ("C++", args.cxx)):
        try:
            subprocess.run(compiler.split() + ["--version"], stdout=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"headers: no {what} compiler ({error}): apt-get install gcc g++")
            return 1
    return report("headers", *check(args.root, args.cc, args.cxx, more, args.python))


if __name__ == "__main__":
    sys.exit(main())
