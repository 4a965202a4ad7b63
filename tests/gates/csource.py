"""What the gates share: reading C without comments and strings, and telling a finding."""

import os
import re
import sys
from typing import NamedTuple

TOKEN = re.compile(
    r"/\*.*?\*/|//(?:\\\n|[^\n])*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S
)
NOT_NEWLINE = re.compile(r"[^\n]")


class Finding(NamedTuple):
    """A fault: where it is, what it is, and what to do about it."""

    path: str
    line: int
    fault: str
    cure: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.fault}: {self.cure}"


class Source:
    """One C file. `code` has blanks for comments and strings, `text` for comments only; lines and
    columns stay where they were. `slashes` are the lines with a // comment."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            self.raw = file.read()
        self.slashes = []
        self.code = TOKEN.sub(lambda m: self._blank(m, True), self.raw)
        self.text = TOKEN.sub(lambda m: self._blank(m, False), self.raw)

    def _blank(self, match, strings_too):
        token = match.group(0)
        if token.startswith("//") and strings_too:
            self.slashes.append(self.line_of(match.start()))
        if token.startswith("/") or strings_too:
            return NOT_NEWLINE.sub(" ", token)
        return token

    def line_of(self, offset):
        return self.raw.count("\n", 0, offset) + 1

    def lines_count(self):
        return len(self.raw.splitlines())


def c_files(root, folders):
    """Paths, relative to root, of the .c and .h files below the folders."""
    for folder in folders:
        for where, dirs, files in os.walk(os.path.join(root, folder)):
            dirs.sort()
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(where, name), root)


def report(gate, findings, looked_at):
    """Print the findings and return the exit status. A gate that saw nothing has failed."""
    for finding in findings:
        print(finding)
    if looked_at == 0:
        print(f"{gate}: nothing to look at: is the folder right?")
        return 1
    print(f"{gate}: {len(findings)} finding(s) in {looked_at} file(s)")
    return 1 if findings else 0


def root_from_args(usage):
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print(f"usage: {usage} SOURCE_ROOT", file=sys.stderr)
        sys.exit(2)
    return sys.argv[1]
