#!/usr/bin/env python3
"""Gate: the floors of the house. Includes go down only, outside libraries stay in their rooms,
tools see public headers only, memory comes through one door, and no file grows too long.

The floors themselves are those of cmake/MooncakeHouse.cmake."""

import os
import re
import sys

from csource import Finding, Source, c_files, report, root_from_args

FILE_LINES_MAX = 600
README_LINES_MAX = 30

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>\n]*>|"[^"\n]*")', re.M)

# (what the header is, how it is recognised, who may include it, what to do)
OUTSIDE = [
    ("libuv", re.compile(r"uv\.h|uv/"), re.compile(r"src/(io|transport)/"),
     "libuv stays in io/ and transport/; use io/loop.h and io/stream.h"),
    ("protobuf", re.compile(r"protobuf-c/|google/protobuf|.*\.pb-c\.h$"), re.compile(r"src/wire/"),
     "protobuf stays in wire/; use the plain structs of wire/messages.h"),
    ("a verbs header", re.compile(r"infiniband/|rdma/"), re.compile(r"src/transport/rdma"),
     "verbs stay in transport/rdma*; use transport/transport.h"),
    ("libmicrohttpd", re.compile(r"microhttpd"), re.compile(r"src/io/admin_(http|reply)"),
     "HTTP stays in io/admin_http.c and io/admin_reply.c; add a route with io/admin_http.h"),
]

RAW_MEMORY = re.compile(
    r"(?<![\w.>])(malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|"
    r"aligned_alloc|posix_memalign|memalign)\s*\(")

BANNED = {
    "strcpy": "copy a known length with memcpy, or use snprintf",
    "strcat": "use snprintf or an mc_buf",
    "sprintf": "use snprintf",
    "vsprintf": "use vsnprintf",
    "gets": "use fgets",
    "strtok": "use strchr or strtok_r",
    "gmtime": "use gmtime_r",
    "localtime": "use localtime_r",
    "rand": "use mc_random_u64 of base/bytes.h, or a seeded generator of your own",
    "srand": "use a seeded generator of your own",
    "atoi": "use the parsers of base/option.h, or strtol with all its checks",
    "atol": "use the parsers of base/option.h, or strtol with all its checks",
    "atoll": "use the parsers of base/option.h, or strtoll with all its checks",
    "alloca": "use a fixed array with a stated bound, or the heap",
}
BANNED_CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")

# What a tool may have of the house: how a program ends is the same for all of them, and nothing that
# users of the library need.
TOOLS_SEE = {"base/close_stdout.h"}

# A sibling that may be used, and the one header to use it through.
SIBLING_FACE = {("client", "store"): "store/store_serve.h"}


def read_floors(root):
    with open(os.path.join(root, "cmake/MooncakeHouse.cmake"), encoding="utf-8") as file:
        return {m[1]: int(m[2]) for m in re.finditer(r"set\(MC_FLOOR_(\w+) (\d+)\)", file.read())}


def includes_of(source):
    """(line, header, is it in quotes) of each include that is not in a comment."""
    for match in INCLUDE.finditer(source.text):
        yield source.line_of(match.start(1)), match[1][1:-1], match[1][0] == '"'


def check_outside(source, line, header):
    for what, is_it, allowed, cure in OUTSIDE:
        if is_it.match(header) and not allowed.match(source.path):
            yield Finding(source.path, line, f'includes {what} ("{header}")', cure)


def check_room_include(source, line, header, floors):
    """An include in quotes of a file below src/."""
    room = source.path.split("/")[1]
    need = header.split("/")[0]
    if need == "mooncake" or header.endswith(".pb-c.h"):
        return  # protobuf's own rule is in OUTSIDE
    if "/" not in header or ".." in header:
        yield Finding(source.path, line, f'includes "{header}" by a bare or relative name',
                      'write "room/file.h", so that the floor can be seen')
    elif need not in floors:
        yield Finding(source.path, line, f'includes "{header}", but {need} has no floor',
                      "give the room a floor in cmake/MooncakeHouse.cmake, or include less")
    elif room == "master" and need == "transport":
        yield Finding(source.path, line, f'the master includes "{header}"',
                      "the master never touches a payload byte; leave transport to store and client")
    elif need != room and header != SIBLING_FACE.get((room, need)):
        if floors[need] > floors[room]:
            yield Finding(source.path, line,
                          f'{room} (floor {floors[room]}) includes upward "{header}" '
                          f"(floor {floors[need]})",
                          "call down and let a callback come up, or move the code down")
        elif floors[need] == floors[room]:
            yield Finding(source.path, line,
                          f'{room} includes its sibling "{header}" (both floor {floors[room]})',
                          "siblings never include one another; move what is shared a floor down")


def check_public_only(source, line, header):
    """An include in quotes of a tool, of the Python module, or of a public header."""
    if header.startswith("mooncake/"):
        return
    own = os.path.dirname(source.path)
    if own.startswith("tools/") and header in TOOLS_SEE:
        return
    if own.startswith("include/"):
        yield Finding(source.path, line, f'a public header includes "{header}"',
                      "public headers include mooncake/*.h and the C library only")
    elif "/" in header:
        yield Finding(source.path, line, f'includes "{header}"',
                      "include mooncake/*.h and files of the own folder only; what a tool lacks "
                      "belongs into the public API")


def check_includes(source, floors):
    room = source.path.split("/")[1]
    inside = source.path.startswith("src/") and room != "python"
    if inside and room not in floors:
        yield Finding(source.path, 1, f"the room {room} has no floor",
                      "give it one in cmake/MooncakeHouse.cmake")
        return
    for line, header, quoted in includes_of(source):
        yield from check_outside(source, line, header)
        if not quoted and header.split("/")[0] not in floors:
            continue
        if inside:
            yield from check_room_include(source, line, header, floors)
        else:
            yield from check_public_only(source, line, header)


def check_calls(source):
    for match in BANNED_CALL.finditer(source.code):
        yield Finding(source.path, source.line_of(match.start()), f"calls {match[1]}()",
                      BANNED[match[1]])
    if not source.path.startswith("src/") or source.path in ("src/base/mem.c", "src/base/mem.h"):
        return  # tools see public headers only, so they take memory from libc
    for match in RAW_MEMORY.finditer(source.code):
        yield Finding(source.path, source.line_of(match.start()), f"calls {match[1]}()",
                      "heap memory comes through base/mem.h, so that tests can make it fail")


def check_length(source):
    lines = source.lines_count()
    if lines > FILE_LINES_MAX:
        yield Finding(source.path, FILE_LINES_MAX + 1, f"{lines} lines in one file",
                      f"at most {FILE_LINES_MAX}; find the second job in it and give that a file")


def check_readmes(root):
    """Each room that holds code says in a README of one screen what it is for."""
    src = os.path.join(root, "src")
    for room in sorted(os.listdir(src)):
        if not any(path.endswith(".c") for path in c_files(src, [room])):
            continue
        path = f"src/{room}/README.md"
        if not os.path.exists(os.path.join(root, path)):
            yield Finding(path, 1, "the room has no README",
                          "say what it is for, which file first, which thread, what it must "
                          "not know")
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = len(file.read().splitlines())
        if lines > README_LINES_MAX:
            yield Finding(path, README_LINES_MAX + 1, f"{lines} lines",
                          f"at most {README_LINES_MAX}; details belong beside the code")


def check(root):
    """All findings, and the number of files looked at."""
    floors = read_floors(root)
    findings = []
    looked_at = 0
    for path in c_files(root, ["src", "tools", "include"]):
        source = Source(root, path)
        looked_at += 1
        findings += check_includes(source, floors)
        findings += check_calls(source)
        findings += check_length(source)
    for path in c_files(root, ["tests"]):
        findings += check_length(Source(root, path))
    findings += check_readmes(root)
    return findings, looked_at


if __name__ == "__main__":
    sys.exit(report("floors", *check(root_from_args("floors.py"))))
