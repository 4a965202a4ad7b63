#!/usr/bin/env python3
"""Output that could not be written is no success, in any program.

usage: test_stdout.py PROGRAM..."""

import os
import subprocess
import sys
import unittest

PROGRAMS = sys.argv[1:]
DAEMONS = {"mooncake_master", "mooncake_store", "mooncake_client"}


def questions():
    for program in PROGRAMS:
        name = os.path.basename(program)
        words = ["--help", "--version"]
        words += ["--print_config"] if name in DAEMONS else ["help"]
        for word in words:
            yield name, [program, word]


def ask(args, **how):
    return subprocess.run(args, stderr=subprocess.PIPE, timeout=60, check=False, text=True, **how)


class Stdout(unittest.TestCase):
    def test_what_can_be_written_is_a_success(self):
        for name, args in questions():
            with self.subTest(name=name, word=args[1]):
                told = ask(args, stdout=subprocess.PIPE)
                self.assertEqual((told.returncode, told.stderr), (0, ""))
                self.assertNotEqual(told.stdout, "")

    def test_a_full_disk_is_said_and_is_no_success(self):
        for name, args in questions():
            with self.subTest(name=name, word=args[1]), open("/dev/full", "wb") as full:
                told = ask(args, stdout=full)
                self.assertNotEqual(told.returncode, 0)
                self.assertEqual(told.stderr, f"{name}: cannot write to the standard output: "
                                              "No space left on device\n")

    def test_a_closed_output_is_said_and_is_no_success(self):
        for name, args in questions():
            with self.subTest(name=name, word=args[1]):
                told = ask(["sh", "-c", 'exec "$@" >&-', "sh", *args])
                self.assertNotEqual(told.returncode, 0)
                self.assertIn(f"{name}: cannot write to the standard output: Bad file", told.stderr)

    def test_a_reader_who_went_away_is_not_told_of(self):
        for name, args in questions():
            with self.subTest(name=name, word=args[1]):
                reader, writer = os.pipe()
                os.close(reader)
                try:
                    told = ask(args, stdout=writer)
                finally:
                    os.close(writer)
                self.assertNotEqual(told.returncode, 0)
                self.assertEqual(told.stderr, "")


if __name__ == "__main__":
    if len(PROGRAMS) != 5:
        sys.exit(__doc__)
    del sys.argv[1:]
    unittest.main()
