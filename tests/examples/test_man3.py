#!/usr/bin/env python3
"""Each function that the library exports has a man page with all of its parts, and groff takes it.

usage: test_man3.py SOURCE_ROOT LIBRARY"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, LIBRARY = sys.argv[1:3]
PARTS = ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUES", "EXAMPLES", "SEE ALSO"]


def exported():
    """What the linker sees, whatever the headers say."""
    text = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
    return set(re.findall(r" T (mooncake_\w+)", text))


def inline():
    """Functions of the headers that are no symbols of the library."""
    found = set()
    for path in glob.glob(os.path.join(ROOT, "include/mooncake/*.h")):
        with open(path, encoding="utf-8") as file:
            found.update(re.findall(r"^static inline .*?(mooncake_\w+)\(", file.read(), re.M))
    return found


def faults_of(name, text):
    found = [f"no {part}" for part in PARTS if f"\n.Sh {part}\n" not in text]
    example = text.partition("\n.Sh EXAMPLES\n")[2]
    if not re.search(rf"\b{name}\(", example):
        found.append("its example does not call it")
    described = text.partition(".Sh DESCRIPTION\n")[2].partition("\n.Sh ")[0]
    if len(described.strip()) < 12:
        found.append(f"says hardly anything: {described!r}")
    arguments = re.findall(r'^\.Fa "(.*)"$', text, re.M)
    told = re.findall(r"^\.It Fa (\w+)$", text, re.M)
    if len(arguments) != len(told):
        found.append(f"{len(arguments)} parameters, {len(told)} of them told")
    if '.Ft "mooncake_err"' in text and "\n.Sh ERRORS\n" not in text:
        found.append("no ERRORS")
    return found


def looks(path, name):
    """Warnings of groff, and what a person would read."""
    done = subprocess.run(["groff", "-mdoc", "-ww", "-Tutf8", path], capture_output=True, text=True,
                          check=False)
    plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
    faults = [line for line in done.stderr.splitlines() if "break" not in line]
    if name not in plain or "EXAMPLES" not in plain:
        faults.append("is not to be read")
    return faults


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(ROOT, "tools/gen_man3"), folder], check=True)
        there = {name[:-2] for name in os.listdir(folder)}
        public = exported()
        assert len(public) > 50, public
        faults = [f"{name}: no page: tools/gen_man3" for name in sorted(public - there)]
        faults += [f"{name}: a page, and no such function" for name in sorted(there - public - inline())]
        for name in sorted(there):
            path = os.path.join(folder, name + ".3")
            with open(path, encoding="utf-8") as file:
                found = faults_of(name, file.read())
            if shutil.which("groff"):
                found += looks(path, name)
            faults += [f"{name}: {fault}" for fault in found]
    print("\n".join(faults))
    print(f"man3: {len(faults)} finding(s) in {len(there)} pages" +
          ("" if shutil.which("groff") else "; their look not tried: apt-get install groff"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
