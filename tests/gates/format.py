#!/usr/bin/env python3
"""Gate: every C file is as clang-format would write it. Exit status 77 says that the program is
not installed, which ctest shows as skipped."""

import shutil
import subprocess
import sys

from csource import c_files, root_from_args

SKIPPED = 77


def main():
    root = root_from_args("format.py")
    if shutil.which("clang-format") is None:
        print("format: skipped: clang-format is not installed: apt-get install clang-format")
        return SKIPPED
    files = list(c_files(root, ["src", "tools", "include", "tests", "docs"]))
    if not files:
        print("format: nothing to look at: is the folder right?")
        return 1
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", "--style=file", *files],
                            cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    print(result.stdout, end="")
    faults = result.stdout.count("error:")
    print(f"format: {faults} finding(s) in {len(files)} file(s)" +
          (": clang-format -i FILE" if faults else ""))
    return 0 if result.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
