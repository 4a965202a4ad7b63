#!/usr/bin/env python3
"""Write the seeds of fuzz_frame and fuzz_rpc_server: make_rpc_seeds.py SEEDS_DIRECTORY."""

import os
import struct
import sys

MAGIC = 0x314B434D
HELLO, ECHO, KEEP, FAIL = 1, 2, 3, 4
BODY_LEN_MAX = 64 << 20


def frame(method, request_id=1, body=b"", flags=0, version=1, announce=None, magic=MAGIC):
    length = len(body) if announce is None else announce
    return struct.pack("<IBBHQiI", magic, version, flags, method, request_id, 0, length) + body


HI = frame(HELLO, 1, b"hello")
FLOWS = {
    "hello": HI,
    "echo": HI + frame(ECHO, 2, b"abc"),
    "kept": HI + b"".join(frame(KEEP, i) for i in range(70)),
    "fail": HI + frame(FAIL, 9, b"x" * 300),
    "many": HI + b"".join(frame(ECHO, i, b"y" * (i % 40)) for i in range(60)),
    "refused": frame(HELLO, 1, b"\xff") + frame(ECHO, 2, b"abc"),
    "reply": HI + frame(ECHO, 2, b"abc", flags=1),
    "version": HI + frame(ECHO, 2, b"abc", version=9),
    "announced": HI + frame(ECHO, 2, b"abc", announce=BODY_LEN_MAX),
    "beyond": HI + frame(ECHO, 2, b"abc", announce=BODY_LEN_MAX + 1),
    "magic": HI + frame(ECHO, 2, b"abc", magic=0x20544547),
    "twice": HI + HI,
    "large": HI + frame(ECHO, 2, b"z" * 9000) + frame(ECHO, 3),
}


def write(directory, name, data):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as out:
        out.write(data)


for name, flow in FLOWS.items():
    write(os.path.join(sys.argv[1], "frame"), name, struct.pack("<I", len(flow) * 7 + 3) + flow)
    write(os.path.join(sys.argv[1], "rpc_server"), name, bytes([5]) + flow)
    if name in ("many", "large"):
        write(os.path.join(sys.argv[1], "rpc_server"), name + "_whole", bytes([0]) + flow)
