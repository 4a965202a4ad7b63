#!/usr/bin/env python3
"""Gate: the shared library exports what the public headers promise, and nothing else."""

import re
import subprocess
import sys

from csource import Finding, Source, c_files, report

DECLARED = re.compile(r"\bMOONCAKE_API\b[^;]*?\b(mooncake_\w+)\s*\(", re.S)


def exported(library):
    """Names of the dynamic symbols that the library defines; version nodes are left out."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    fields = [line.split() for line in out.splitlines()]
    return {f[-1].split("@")[0] for f in fields if len(f) >= 3 and f[-2] != "A"}


def declared(root):
    """name -> (header, line) of every public function."""
    result = {}
    for path in c_files(root, ["include"]):
        source = Source(root, path)
        for match in DECLARED.finditer(source.code):
            result[match[1]] = (path, source.line_of(match.start(1)))
    return result


def check(root, library):
    there = exported(library)
    promised = declared(root)
    findings = []
    for name in sorted(there):
        if not name.startswith("mooncake_"):
            findings.append(Finding(library, 0, f"exports {name}",
                                    "make it static, or keep it from the linker's version script"))
        elif name not in promised:
            findings.append(Finding(library, 0, f"exports {name}, which no public header declares",
                                    "declare it with MOONCAKE_API, or call it mc_*"))
    for name in sorted(set(promised) - there):
        path, line = promised[name]
        findings.append(Finding(path, line, f"{name} is declared but not exported",
                                "build it, or take the declaration out"))
    return findings, len(there)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: symbols.py SOURCE_ROOT LIBRARY", file=sys.stderr)
        sys.exit(2)
    sys.exit(report("symbols", *check(sys.argv[1], sys.argv[2])))
