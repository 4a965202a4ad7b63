#!/usr/bin/env python3
"""Test of the gates: a fault planted in a scratch copy of the tree makes its gate bite, and the
message names the file, the line and the cure."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import floors
import style

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def gate(name, *args):
    """Exit status and output of one gate. The two that are tried dozens of times run in here;
    test_exit_status has them run as ctest runs them."""
    if name in IN_HERE:
        findings, _ = IN_HERE[name](*args)
        return (1 if findings else 0), "\n".join(map(str, findings))
    return run(name, *args)


IN_HERE = {"floors": floors.check, "style": style.check}


def run(name, *args):
    result = subprocess.run([sys.executable, os.path.join(HERE, name + ".py"), *args],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    return result.returncode, result.stdout


class ScratchCopy(unittest.TestCase):
    """Each test has a copy of the lowest floor and the public headers in self.root, free to be
    broken. Not of the whole tree, which would be read again for each of many faults."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        for folder in ("src/base", "include", "cmake"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(self.root, folder))
        os.makedirs(os.path.join(self.root, "tools"))
        shutil.copy(os.path.join(ROOT, ".clang-format"), self.root)

    def plant(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def assert_bites(self, name, *words, args=None):
        status, output = gate(name, *(args or [self.root]))
        self.assertEqual(status, 1, output)
        for word in words:
            self.assertIn(word, output)

    def assert_passes(self, name, args=None):
        status, output = gate(name, *(args or [self.root]))
        self.assertEqual(status, 0, output)


class Floors(ScratchCopy):
    def test_the_tree_as_it_is_passes(self):
        self.assert_passes("floors", args=[ROOT])
        self.assert_passes("floors")

    def test_faults_of_includes(self):
        cases = [
            ("src/base/zz.c", "base/err.h", "io/loop.h",
             "base (floor 0) includes upward", "let a callback come up"),
            ("src/rpc/zz.c", "io/loop.h", "transport/xfer.h",
             "rpc includes its sibling", "a floor down"),
            ("src/store/zz.c", "base/err.h", "client/engine.h",
             "store includes its sibling", "a floor down"),
            ("src/client/zz.c", "store/store_serve.h", "store/segment.h",
             "client includes its sibling", "a floor down"),
            ("src/master/zz.c", "wire/messages.h", "transport/extent.h",
             "the master includes", "never touches a payload byte"),
            ("src/base/zz.c", "base/err.h", "err.h", "bare or relative", 'write "room/file.h"'),
            ("src/base/zz.c", "base/err.h", "cellar/x.h", "cellar has no floor", "MooncakeHouse"),
            ("src/rpc/zz.c", "base/err.h", "control.pb-c.h", "includes protobuf",
             "wire/messages.h"),
            ("tools/zz/zz.c", "mooncake/client.h", "base/err.h", "includes \"base/err.h\"",
             "public API"),
            ("tools/zz/zz.c", "base/close_stdout.h", "base/text.h", "includes \"base/text.h\"",
             "public API"),
            ("src/python/zz.c", "mooncake/client.h", "base/close_stdout.h",
             "includes \"base/close_stdout.h\"", "public API"),
            ("tools/zz/zz.c", "zz.h", "../other/x.h", "includes \"../other/x.h\"", "own folder"),
            ("include/mooncake/zz.h", "mooncake/error.h", "base/err.h", "a public header",
             "mooncake/*.h and the C library only"),
        ]
        for path, good, bad, fault, cure in cases:
            with self.subTest(path=path, include=bad):
                self.plant(path, f'/* A file. */\n#include "{good}"\n\n# include "{bad}"\n')
                self.assert_bites("floors", f"{path}:4: ", fault, cure)
                self.plant(path, f'/* A file.\n#include "{bad}" */\n#include "{good}"\n')
                self.plant(os.path.dirname(path) + "/README.md", "One line.\n")
                self.assert_passes("floors")

    def test_outside_libraries_stay_in_their_rooms(self):
        cases = [
            ("src/rpc/zz.c", "uv.h", "src/io/zz.c"),
            ("src/master/zz.c", "protobuf-c/protobuf-c.h", "src/wire/zz.c"),
            ("src/transport/tcp_zz.c", "infiniband/verbs.h", "src/transport/rdma_zz.c"),
            ("src/transport/tcp_zz.c", "rdma/rdma_cma.h", "src/transport/rdma_zz.c"),
            ("src/master/zz.c", "microhttpd.h", "src/io/admin_http.c"),
            ("tools/zz/zz.c", "uv.h", "src/transport/zz.c"),
        ]
        for path, header, home in cases:
            with self.subTest(path=path, include=header):
                self.plant(path, f"#include <{header}>\n")
                self.assert_bites("floors", f"{path}:1: includes ", header)
                os.remove(os.path.join(self.root, path))
                self.plant(home, f"#include <{header}>\n")
                self.plant(os.path.dirname(home) + "/README.md", "One line.\n")
                self.assert_passes("floors")

    def test_faults_of_calls(self):
        self.plant("src/io/README.md", "One line.\n")
        for call in ("malloc", "free", "calloc", "realloc", "strdup", "asprintf"):
            with self.subTest(call=call):
                self.plant("src/io/zz.c", f"void f(void)\n{{\n    {call}(p);\n}}\n")
                self.assert_bites("floors", f"src/io/zz.c:3: calls {call}()", "base/mem.h")
        for call in ("strcpy", "strcat", "sprintf", "strtok", "gmtime", "localtime", "rand",
                     "atoi", "alloca"):
            with self.subTest(call=call):
                self.plant("src/io/zz.c", f"void f(void)\n{{\n    {call} (p);\n}}\n")
                self.assert_bites("floors", f"src/io/zz.c:3: calls {call}(): ")
        # What only looks like one.
        self.plant("src/io/zz.c", 'void f(void)\n{\n    mc_free(p); /* free(p) */ s->free(p);\n'
                                  '    g("malloc(1)"); gmtime_r(a, b); snprintf(c, 1, "");\n}\n')
        self.assert_passes("floors")
        # A tool takes memory from libc, but has the same banned list.
        self.plant("tools/zz/zz.c", "void f(void)\n{\n    free(p);\n}\n")
        self.assert_passes("floors")
        self.plant("tools/zz/zz.c", "void f(void)\n{\n    atoi(p);\n}\n")
        self.assert_bites("floors", "tools/zz/zz.c:3: calls atoi()")

    def test_a_file_over_600_lines(self):
        self.plant("tools/zz/zz.c", "int x;\n" * 600)
        self.assert_passes("floors")
        self.plant("tools/zz/zz.c", "int x;\n" * 601)
        self.assert_bites("floors", "tools/zz/zz.c:601: 601 lines", "at most 600")
        os.remove(os.path.join(self.root, "tools/zz/zz.c"))
        self.plant("tests/zz/zz.c", "int x;\n" * 601)
        self.assert_bites("floors", "tests/zz/zz.c:601: 601 lines", "at most 600")

    def test_a_room_without_a_readme_or_with_a_long_one(self):
        self.plant("src/base/README.md", "line\n" * 31)
        self.assert_bites("floors", "src/base/README.md:31: 31 lines", "at most 30")
        os.remove(os.path.join(self.root, "src/base/README.md"))
        self.assert_bites("floors", "src/base/README.md:1: the room has no README")

    def test_exit_status(self):
        for name in IN_HERE:
            self.assertEqual(run(name, self.root)[0], 0)
        self.plant("src/base/zz.c", "int x; // atoi\nint y = atoi(z);\n")
        for name in IN_HERE:
            status, output = run(name, self.root)
            self.assertEqual(status, 1)
            self.assertIn("src/base/zz.c:", output)
            self.assertIn(f"{name}: 1 finding(s)", output)
        for folder in ("src", "include"):
            shutil.rmtree(os.path.join(self.root, folder))
            os.makedirs(os.path.join(self.root, folder))
        for name in IN_HERE:
            status, output = run(name, self.root)
            self.assertEqual(status, 1)
            self.assertIn("nothing to look at", output)
            self.assertEqual(run(name)[0], 2)


class Style(ScratchCopy):
    def test_the_tree_as_it_is_passes(self):
        self.assert_passes("style", args=[ROOT])

    def test_faults(self):
        self.plant("src/base/zz.c", "void f(void)\n{\n" + "    g();\n" * 69 + "}\n")
        self.assert_passes("style")
        self.plant("src/base/zz.c", "void f(void)\n{\n" + "    g();\n" * 70 + "}\n")
        self.assert_bites("style", "src/base/zz.c:2: a function of 71 lines", "at most 70")
        self.plant("src/base/zz.c", 'int x;\nchar *u = "http://x"; /* // */\n')
        self.assert_passes("style")
        self.plant("src/base/zz.c", "int x;\nint y; // why\n")
        self.assert_bites("style", "src/base/zz.c:2: a // comment", "write /* */")
        self.plant("src/base/zz.c", "int x;\n/* TO" "DO: all of it */\n")
        self.assert_bites("style", "src/base/zz.c:2: TO" "DO in the code", "build it now")


class Headers(ScratchCopy):
    def test_faults(self):
        self.plant("include/mooncake/zz.h", "#ifndef Z\n#define Z\n\nuint32_t x;\n#endif\n")
        self.plant("include/mooncake/zz2.h", "#ifndef Y\n#define Y\nextern int *class;\n#endif\n")
        self.plant("src/base/zz.h", "#ifndef Z\n#define Z\nint f(size_t len);\n#endif\n")
        self.plant("src/base/zz2.h", "#include <stddef.h>\nenum noguard { NOGUARD };\n")
        self.assert_bites("headers",
                          "include/mooncake/zz.h:4: does not compile alone as C11",
                          "include/mooncake/zz.h:4: does not compile alone as C++11",
                          "include/mooncake/zz2.h:3: does not compile alone as C++11",
                          "src/base/zz.h:3: does not compile alone as C11",
                          "src/base/zz2.h:2: does not compile alone as C11",
                          "include what it uses", "headers: 5 finding(s)")


class Symbols(ScratchCopy):
    def build(self, *names):
        library = os.path.join(self.root, "libzz.so")
        source = "".join(f"int {name}(void);\nint {name}(void)\n{{ return 0; }}\n" for name in names)
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source,
                       text=True, check=True)
        return [self.root, library]

    def test_faults(self):
        shutil.rmtree(os.path.join(self.root, "include"))
        self.plant("include/mooncake/zz.h",
                   "MOONCAKE_API int mooncake_one(void);\n\nMOONCAKE_API int\nmooncake_two(void);\n")
        self.assert_passes("symbols", args=self.build("mooncake_one", "mooncake_two"))
        self.assert_bites("symbols", "exports mc_helper: make it static",
                          args=self.build("mooncake_one", "mooncake_two", "mc_helper"))
        self.assert_bites("symbols", "exports mooncake_three, which no public header declares",
                          args=self.build("mooncake_one", "mooncake_two", "mooncake_three"))
        self.assert_bites("symbols", "include/mooncake/zz.h:4: mooncake_two is declared but not",
                          args=self.build("mooncake_one"))


class House(ScratchCopy):
    def test_a_house_that_forgot_to_look(self):
        path = os.path.join(self.root, "cmake/MooncakeHouse.cmake")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        forgot = text.replace("NOT MC_FLOOR_${need} LESS MC_FLOOR_${name}", "FALSE")
        self.assertNotEqual(text, forgot)
        self.plant("cmake/MooncakeHouse.cmake", forgot)
        self.assert_bites("house", "upward: WRONG", "sideways: WRONG", "downward: ok")


@unittest.skipUnless(shutil.which("clang-format"), "clang-format is not installed")
class Format(ScratchCopy):
    def test_faults(self):
        for folder in ("src", "include"):
            shutil.rmtree(os.path.join(self.root, folder))
        self.plant("src/base/zz.c", "int x;\n")
        self.assert_passes("format")
        self.plant("src/base/zz.c", "int x;\nint   y;\n")
        self.assert_bites("format", "src/base/zz.c:2:", "clang-format -i FILE")


if __name__ == "__main__":
    unittest.main()
