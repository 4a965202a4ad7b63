#!/usr/bin/env python3
"""Write the seeds of the targets address, admin, bench_args, ctl_args, extent, pattern, rdma, shm and
trace: make_text_seeds.py SEEDS_DIRECTORY."""

import os
import struct
import sys


def words(*args):
    return "\n".join(args).encode()


def http(line, *headers, body=b""):
    return "\r\n".join([line, "Host: x", *headers, "", ""]).encode() + body


def extent(mode, object_id=(1, 2), index=0, count=1, length=300, magic=b"MCX1\1\0\0\0"):
    return bytes([mode]) + magic + struct.pack("<QQIIQQQQ", *object_id, index, count, length, 99,
                                               0, 0)


def rdma_request(version=1, right=1, index=0, count=1):
    return b"\0MR" + struct.pack("<BBBBBB6Q", version, right, 3, index, count, 0,
                                5, 4096, 1 << 20, 0x123456789abcdef, 7, 8)


def rdma_answer(length, part, parts):
    return (b"\1MR" + struct.pack("<BBIQQQ", 1, parts, 4096, 0x7f0000000000, length, part)
            + b"".join(struct.pack("<I", 1000 + i) for i in range(parts)))


SEEDS = {
    "address": {
        "v4": b"127.0.0.1:50051",
        "v6": b"[::1]:18515",
        "scope": b"[fe80::1%lo]:7",
        "name": b"host.example:1",
        "no_port": b"10.0.0.7",
    },
    "admin": {
        "list": http("GET / HTTP/1.1", "Connection: close"),
        "query": http("GET /query_key?key=key1 HTTP/1.1"),
        "encoded": http("GET /query_key?x=1&key=line%0aend%0d%5c&y HTTP/1.1"),
        "nul": http("GET /query_key?key=key1%00x HTTP/1.1"),
        "many": http("GET /query_key?" + "a=b&" * 70 + "key=key1 HTTP/1.1"),
        "long": http("GET /query_key?key=" + "k" * 4097 + " HTTP/1.1"),
        "two": http("GET /get_all_keys HTTP/1.1") + http("GET /get_segments_detail HTTP/1.1"),
        "head": http("HEAD /metrics HTTP/1.1"),
        "post": http("POST /health HTTP/1.1", "Content-Length: 5", body=b"hello"),
        "huge": http("POST /health HTTP/1.1", "Content-Length: 99999999999999999999"),
        "expect": http("PUT /role HTTP/1.1", "Expect: 100-continue", "Content-Length: 2000000"),
        "chunked": http("POST /none HTTP/1.1", "Transfer-Encoding: chunked",
                        body=b"3\r\nabc\r\n0\r\n\r\n"),
        "old": b"GET /metrics/summary HTTP/1.0\r\n\r\n",
        "nonsense": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    },
    "bench_args": {
        "all": words("--threads=4", "--working-set", "1.5GiB", "--time=2s", "--batches=1,8,32",
                     "--sizes", "4KiB,1MiB", "--offline", "--trace=x.jsonl", "--json"),
        "range": words("--threads", "65"),
        "list": words("--batches=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"),
        "sizes": words("--sizes=1B,2K,3KB,4MiB"),
        "pool": words("--master=h:1", "--timeout=5s", "--verify", "header", "--seed=7"),
        "help": words("--help"),
        "unknown": words("--nothing", "word"),
        "size": b"1.5GiB",
        "number": b"18446744073709551615",
    },
    "ctl_args": {
        "put": words("put", "key", "-", "--replicas=2", "--soft-pin", "--timeout=500ms"),
        "ls": words("ls", "--limit", "10", "--null"),
        "rm": words("--json", "rm", "--pattern", "^a", "--force"),
        "ends": words("--master=h:1", "get", "--", "--key"),
        "help": words("help", "put"),
        "near": words("staus", "--jsn"),
        "under": words("put", "--hard_pin", "k", "f"),
        "short": words("exist"),
        "digits": words("ls", "--limit=9223372036854775808"),
        "day": words("status", "--timeout=24h"),
    },
    "extent": {
        "own": extent(7, (5, 6), 1, 2, 4096),
        "asked": extent(3),
        "stale": extent(3, (1, 3)),
        "slice": extent(3, index=1, count=2),
        "length": extent(3, length=301),
        "damaged": extent(0),
        "magic": extent(1, magic=b"MCX2\1\0\0\0"),
        "format": extent(1, magic=b"MCX1\2\0\0\0"),
    },
    "pattern": {
        "plain": b"key\0akeyb\0kex\0key",
        "anchored": b"^model/[0-9]+$\0model/17\0model/x",
        "nested": b"(a+)+$\0" + b"a" * 40 + b"b\0aaaa",
        "alternatives": b"(a|aa|b)*c\0" + b"ab" * 60,
        "back": b"(.*)\\1\\1x\0" + b"abcabc" * 20,
        "deep": b"(" * 60 + b"a" + b")" * 60 + b"\0a",
        "recursion": b"(a(?R)?b)\0aaabbb",
        "lookbehind": b"(?<=ab)c(?!d)\0abcd\0abce",
        "class": b"[[:alpha:]\\d_-]{2,5}\\x41\0ab_1A",
        "bad": b"a(b\0ab",
        "long": b"k" * 4097,
    },
    "rdma": {
        "read": rdma_request(),
        "write": rdma_request(right=2),
        "padded": rdma_request() + b"\0" * 40,
        "longer": rdma_request() + b"\1",
        "version": rdma_request(version=2),
        "slice": rdma_request(index=2, count=16),
        "one_part": rdma_answer(1 << 20, 1 << 30, 1),
        "parts": rdma_answer((40 << 30) - 4096, 1 << 30, 40),
        "edges": rdma_answer(5 * 4096, 4096, 5) + b"\0" * 16,
        "cut": rdma_answer(4000, 100, 40),
        "refusal": b"\2MR\1\7" + struct.pack("<i", -601) + b"because",
        "silent": b"\2MR\1\0" + struct.pack("<i", -101) + b"\0" * 140,
        "list": b"\3tcp://10.0.0.7:1 rdma://10.0.0.7:40001?dev=mlx5_0&gid=rocev2&numa=0&mtu=4096",
        "v6": b"\3rdma://[2001:db8::7]:1?numa=4095&mtu=256&x=y rdma://10.0.0.8:65535",
        "words": b"\3rdma://1.2.3.4:5?dev=" + b"d" * 63 + b"&gid=123456789012345&numa="
                 + b"0" * 14 + b"1&mtu=" + b"0" * 11 + b"1024",
    },
    "shm": {
        "request": b"\0" + struct.pack("<IHHQ", 0x3153434D, 1, 0, 5),
        "version": b"\0" + struct.pack("<IHHQ", 0x3153434D, 2, 0, 5),
        "reply": b"\1" + struct.pack("<IiQ", 0x3153434D, 0, 1 << 20),
        "refusal": b"\1" + struct.pack("<IiQ", 0x3153434D, -101, 0),
        "list": b"\2tcp://10.0.0.7:1 shm://\1/run/mooncake/x  shm://other/y",
        "empty": b"\2shm://\1",
        "full": b"\2shm://\1/" + b"p" * 107,
        "path": b"\3/run/mooncake/store.sock",
        "relative": b"\3run/x",
        "long": b"\3/" + b"q" * 107,
    },
    "trace": {
        "line": b'{"timestamp": 0, "input_length": 1500, "output_length": 3, '
                b'"hash_ids": [1, 2, 33]}',
        "empty": b'{"hash_ids": []}',
        "negative": b'{"hash_ids": [1, -2]}',
        "real": b'{"hash_ids": [1.5]}',
        "large": b'{"hash_ids": [9223372036854775807]}',
        "beyond": b'{"hash_ids": [9223372036854775808]}',
        "none": b'{"timestamp": 3}',
        "text": b'{"hash_ids": "1"}',
        "twice": b'{"hash_ids": [1], "hash_ids": [2]}',
        "array": b"[1, 2]",
        "cut": b'{"hash_ids": [1, 2',
        "behind": b'{"hash_ids": [1]} x',
    },
}

for target, seeds in SEEDS.items():
    directory = os.path.join(sys.argv[1], target)
    os.makedirs(directory, exist_ok=True)
    for name, data in seeds.items():
        with open(os.path.join(directory, name), "wb") as out:
            out.write(data)
