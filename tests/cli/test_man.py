#!/usr/bin/env python3
"""Each manual page names the options that its program has, and no others.

usage: test_man.py MAN_FOLDER PROGRAM..."""

import os
import re
import subprocess
import sys

IN_HELP = re.compile(r"(?<![\w-])--([a-z][a-z_-]*)")
IN_PAGE = re.compile(r"\bFl -([a-z][a-z_-]*)")


def names(pattern, text):
    return {name.replace("-", "_") for name in pattern.findall(text)}


def options_of(program):
    """From --help, and for a program with commands from the help of each."""
    text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    for command in re.findall(r"(?m)^  ([a-z-]+)\b.* {2}", text):
        if command == "bench":  # another program, with a page of its own
            continue
        more = subprocess.run([program, command, "--help"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        text += more.stdout if more.returncode == 0 else ""
    return names(IN_HELP, text)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    faults = 0
    for program in sys.argv[2:]:
        page = os.path.join(sys.argv[1], os.path.basename(program) + ".1")
        with open(page, encoding="utf-8") as file:
            told = names(IN_PAGE, file.read()) - {"name", "option"}
        there = options_of(program) - {"name", "option"}
        if not there:
            sys.exit(f"{program} --help names no option: has its form changed?")
        for name in sorted(there - told):
            print(f"{page}: says nothing about --{name}: add it")
        for name in sorted(told - there):
            print(f"{page}: tells of --{name}, which the program does not have: take it out")
        faults += len(there ^ told)
    print(f"man: {faults} finding(s) in {len(sys.argv) - 2} page(s)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
