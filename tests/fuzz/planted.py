#!/usr/bin/env python3
"""Shows that each fuzz target finds a fault that is planted into what it tries.

  planted.py TREE [TARGET ...]   copy the sources to TREE; for each fault build, fuzz, and tell the
                                 seconds until it was found; exit status 1 if one was not
  planted.py --check             does each fault still fit the sources?

A fault replaces a text that is in its file exactly once. Before it counts, the target must pass its
seeds without the fault.
"""

import os
import re
import shutil
import subprocess
import sys
import time

SECONDS_MAX = 60
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COPIED = ("CMakeLists.txt", "CMakePresets.json", "cmake", "include", "proto", "src", "tests/fuzz",
          "tests/cli", "tools")

# (target, what is wrong, file, text, text with the fault)
FAULTS = (
    ("options", "a range off by one", "src/base/option_value.c",
     "number <= option->max)", "number <= option->max + 1)"),
    ("parse", "an overflow is not looked for", "src/base/option_parse.c",
     "d->whole > (UINT64_MAX - part) / unit", "d->whole > UINT64_MAX / 2"),
    ("address", "an IPv6 address printed without brackets", "src/io/address.c",
     '"[%s]:%u"', '"%s:%u"'),
    ("wire", "a replica's extents may be more than there are", "src/wire/codec_table.c",
     "if (count > pb->n_segment - in->extent)", "if (count > pb->n_segment + 64)"),
    ("frame", "a frame is thought whole a byte early", "src/rpc/input.c",
     "*out_len = MC_FRAME_LEN + (size_t)frame.body_len;",
     "*out_len = MC_FRAME_LEN + (size_t)frame.body_len - (frame.body_len > 300);"),
    ("rpc_server", "a request keeps a connection that is gone", "src/rpc/rpc_conn.c",
     "slot->request.conn = NULL;", ";"),
    ("extent", "another slice's header is taken", "src/transport/extent.c",
     "mc_load_u32(header + AT_SLICE_INDEX) != ref->slice_index ||", ""),
    ("extent", "the header's own checksum is not looked at", "src/transport/extent.c",
     "mc_load_u64(header + AT_HEADER_CHECKSUM) != hash_once(header, AT_HEADER_CHECKSUM) ||", ""),
    ("shm", "a socket's name one byte too long", "src/transport/shm_wire.c",
     "len - prefix_len < sizeof(out->sun_path)", "len - prefix_len <= sizeof(out->sun_path)"),
    ("shm", "a request of another version is taken", "src/transport/shm_wire.c",
     "mc_load_u16(bytes + 4) != MC_SHM_VERSION ||", ""),
    ("rdma", "a byte of a request is not looked at", "src/transport/rdma_wire.c",
     "if (bytes[7] != 0) {", "if (false) {"),
    ("rdma", "a word of an address one byte too long", "src/transport/rdma_wire.c",
     "len - key_len >= cap", "len - key_len > cap"),
    ("rdma", "parts may cut a header", "src/transport/rdma_wire.c",
     "(answer.parts > 1 && answer.part_len % HEADER_ALIGN != 0)", "false"),
    ("tcp_session", "a mount is kept when a request is refused", "src/transport/tcp_session.c",
     """            mc_mount_return(mount);
            mount = NULL;""", "            mount = NULL;"),
    ("tcp_conn", "a payload's checksum is not looked at", "src/transport/tcp_conn.c",
     "if (hashed && mc_extent_hash_digest(&conn->hash) != conn->promised)", "if (false)"),
    ("pattern", "steps are not counted", "src/master/pattern.c",
     "return pattern->steps > MATCH_STEPS_MAX ? PCRE2_ERROR_MATCHLIMIT : 0;", "return 0;"),
    ("pattern", "the length is not looked at", "src/master/pattern.c",
     "if (strnlen(text, MC_PATTERN_LEN_MAX + 1) > MC_PATTERN_LEN_MAX)", "if (false)"),
    ("master", "a removed key stays in a gauge", "src/master/objects.c",
     "MC_GAUGE(objects->env, soft_pinned_keys, object->pin == MC_PIN_SOFT ? -1 : 0);", ""),
    ("admin", "a NUL in a parameter is let through", "src/io/admin_http.c",
     "(value_len > 0 && memchr(value, '\\0', value_len) != NULL)", "false"),
    ("trace", "an id below 0 is taken", "tools/bench/trace.c",
     "!json_is_integer(id) || json_integer_value(id) < 0", "!json_is_integer(id)"),
    ("bench_args", "a list one too long", "tools/bench/options.c",
     "if (out->count == MC_LIST_MAX ||", "if (out->count == MC_LIST_MAX + 1 ||"),
    ("ctl_args", "a name one byte too long", "tools/mooncakectl/args.c",
     "len - 2 > NAME_LEN_MAX", "len - 2 > NAME_LEN_MAX + 1"),
)


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def check():
    """Each fault fits exactly once, and each target has one."""
    wrong = 0
    for target, what, path, text, _ in FAULTS:
        count = read(os.path.join(TOP, path)).count(text)
        if count != 1:
            print(f"{target}: {what}: its text is in {path} {count} times, not once:\n{text}")
            wrong += 1
    targets = set(re.findall(r"^mc_fuzz\((\w+)", read(os.path.join(TOP, "tests/fuzz/CMakeLists.txt")),
                             re.M))
    for target in sorted(targets ^ {fault[0] for fault in FAULTS}):
        print(f"{target}: is a target without a planted fault, or a fault without a target")
        wrong += 1
    print(f"{len(FAULTS)} faults in {len(targets)} targets, {wrong} wrong")
    return 1 if wrong else 0


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(" ".join(command) + " failed:\n" + done.stdout[-4000:])


def copy(tree):
    source = os.path.join(tree, "source")
    shutil.rmtree(source, ignore_errors=True)
    for name in COPIED:
        path = os.path.join(TOP, name)
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(source, name), symlinks=True)
        else:
            os.makedirs(source, exist_ok=True)
            shutil.copy2(path, source)
    return source


def fuzz(tree, source, target):
    """Seconds until it ended with a find, or None."""
    finds = os.path.join(tree, "finds", target)
    corpus = os.path.join(tree, "corpus")
    shutil.rmtree(finds, ignore_errors=True)
    shutil.rmtree(corpus, ignore_errors=True)
    os.makedirs(finds)
    os.makedirs(corpus)
    start = time.monotonic()
    with open(os.path.join(tree, f"{target}.log"), "w") as log:
        subprocess.run([os.path.join(tree, "build/tests/fuzz/fuzz_" + target),
                        f"-max_total_time={SECONDS_MAX}", "-timeout=20", "-rss_limit_mb=2048",
                        f"-artifact_prefix={finds}/", corpus,
                        os.path.join(source, "tests/fuzz/seeds", target)],
                       stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    found = [find for find in os.listdir(finds) if not find.startswith("slow-unit")]
    return seconds if found else None


def try_fault(tree, source, fault):
    target, what, path, text, planted = fault
    build = ("cmake", "--build", os.path.join(tree, "build"), "--target", "fuzz_" + target)
    whole = read(os.path.join(source, path))
    run(*build)
    run(os.path.join(tree, "build/tests/fuzz/fuzz_" + target), "-runs=0",
        os.path.join(source, "tests/fuzz/seeds", target))
    write(os.path.join(source, path), whole.replace(text, planted))
    try:
        run(*build)
        seconds = fuzz(tree, source, target)
    finally:
        write(os.path.join(source, path), whole)
    verdict = "NOT found" if seconds is None else f"found in {seconds:.1f} s"
    print(f"{target:12} {what:55} {verdict}", flush=True)
    return seconds is not None


def main(arguments):
    if arguments == ["--check"]:
        return check()
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    if check() != 0:
        return 1
    tree = os.path.abspath(arguments[0])
    source = copy(tree)
    # Warnings are the other builds' business: a fault may leave a name without a use.
    run("cmake", "-S", source, "--preset", "fuzz", "-B", os.path.join(tree, "build"),
        "-DMC_WERROR=OFF")
    wanted = [fault for fault in FAULTS if not arguments[1:] or fault[0] in arguments[1:]]
    missed = [fault for fault in wanted if not try_fault(tree, source, fault)]
    print(f"{len(wanted) - len(missed)} of {len(wanted)} found")
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))
