#!/usr/bin/env python3
"""Gate: what a compiler and clang-format do not see. Functions stay short, comments are /* */, and
nothing is left to do later."""

import re
import sys

from csource import Finding, Source, c_files, report, root_from_args

FUNCTION_LINES_MAX = 70

# In pieces, so that a search for these words finds work left for later and not this line.
LATER = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK"]) + r")\b")


def check_functions(source):
    """Linux braces: a function's body is between a { and a } that stand alone in column 0."""
    start = None
    for number, line in enumerate(source.code.split("\n"), 1):
        if line.rstrip() == "{":
            start = number
        elif line.startswith("}") and start is not None:
            if number - start > FUNCTION_LINES_MAX:
                yield Finding(source.path, start, f"a function of {number - start} lines",
                              f"at most {FUNCTION_LINES_MAX}; name its parts and call them")
            start = None


def check_comments(source):
    for line in source.slashes:
        yield Finding(source.path, line, "a // comment",
                      "write /* */; // is for the debugging that you remove")
    for match in LATER.finditer(source.raw):
        yield Finding(source.path, source.line_of(match.start()), f"{match[1]} in the code",
                      "build it now, or file an issue")


def check(root):
    """All findings, and the number of files looked at."""
    findings = []
    looked_at = 0
    for path in c_files(root, ["src", "tools", "include", "tests"]):
        source = Source(root, path)
        looked_at += 1
        findings += check_functions(source)
        findings += check_comments(source)
    return findings, looked_at


if __name__ == "__main__":
    sys.exit(report("style", *check(root_from_args("style.py"))))
