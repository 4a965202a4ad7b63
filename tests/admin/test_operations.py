#!/usr/bin/env python3
"""The run book names only what there is: commands, options, metrics, routes, errors.

usage: test_operations.py SOURCE_ROOT BIN"""

import os
import re
import subprocess
import sys

from web import BIN, ROOT, families, fetch
from pool import Pool

PAGE = os.path.join(ROOT, "docs/operations.md")
LEAST = {"command": 10, "metric": 20, "route": 4, "option": 4, "setting": 5, "error": 3, "link": 6}


def help_of(program, *words):
    return subprocess.run([os.path.join(BIN, program), *words, "--help"], stdout=subprocess.PIPE,
                          text=True, check=True).stdout


def options_in(text):
    return {name.replace("-", "_") for name in re.findall(r"(?<![\w-])--([a-z][a-z_-]*)", text)}


def what_is_there(pool):
    """kind -> names."""
    store = pool.add_store("8MiB", "--admin_port=0")
    admin = f"127.0.0.1:{store.ports()['admin_port']}"
    metrics, routes = set(), {"/"}
    for address in (pool.metrics_address, admin):
        metrics |= set(families(address))
        routes |= set(re.findall(r"(?m)^\w+ +(/[^? ]*)", fetch(address, "/")[1]))
    commands = set(re.findall(r"(?m)^  ([a-z][a-z-]+)\b", help_of("mooncakectl")))
    daemons = help_of("mooncake_master") + help_of("mooncake_store")
    options = options_in(daemons + help_of("mooncakectl"))
    for command in commands - {"bench", "help"}:
        options |= options_in(help_of("mooncakectl", command))
    with open(os.path.join(ROOT, "include/mooncake/error.h"), encoding="utf-8") as file:
        errors = {f"{name} ({number})" for name, number in
                  re.findall(r"X\((\w+), (-?\d+),", file.read())}
    return {"command": commands, "metric": metrics, "route": routes, "option": options,
            "setting": options_in(daemons), "error": errors}


def anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def what_is_named(text):
    code = "\n".join(re.findall(r"```.*?```|`[^`]+`", text, re.S))
    own = re.sub(r"(?m)^.*(journalctl|systemctl|ulimit).*$", "", code)
    return {
        # Not those of a message that is quoted: "mooncakectl: cannot ..".
        "command": set(re.findall(r"\bmooncakectl (?:--\S+ )*([a-z][a-z-]+)", own)),
        "metric": set(re.findall(r"\bmooncake_(?:master|store)_\w+", code)),
        "route": set(re.findall(r"(?:\$ADMIN|HOST:PORT)(/[\w/]*)", code)),
        "option": options_in(own),
        "setting": set(re.findall(r"`((?!mooncake)[a-z]+(?:_[a-z]+)+)`", text)) - {"remove_all"},
        "error": set(re.findall(r"\b(E[A-Z]+ \(-\d+\))", text)),
        "link": set(re.findall(r"\]\(#([^)]+)\)", text)),
    }


def main():
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    named = what_is_named(text)
    with Pool(BIN) as pool:
        there = what_is_there(pool)
    there["link"] = {anchor(title) for title in re.findall(r"(?m)^## (.+)$", text)}
    faults = []
    for kind, names in named.items():
        assert len(names) >= LEAST[kind], f"{kind}: only {names}: has the page's form changed?"
        faults += [f"docs/operations.md: there is no {kind} {name}"
                   for name in sorted(names - there[kind])]
    print("\n".join(faults))
    print("operations: " + ", ".join(f"{len(n)} {kind}s" for kind, n in named.items()) +
          f"; {len(faults)} finding(s)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
