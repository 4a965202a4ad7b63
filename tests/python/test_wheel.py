"""The package as people get it: installed, and as a wheel in a fresh environment."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

from rig import PROGRAMS

from pool import Pool

HERE = os.path.dirname(os.path.abspath(__file__))
WHEEL = os.path.join(HERE, "..", "..", "tools", "wheel")

PROBE = """
import sys, mooncake.store as s
assert sys.argv[2] in s.__file__, s.__file__
store = s.MooncakeDistributedStore()
assert store.setup("localhost", "", 1 << 20, 0, "tcp", "", sys.argv[1]) == 0
assert store.put("k", b"v") == 0 and store.get("k") == b"v"
libraries = [line.split()[-1] for line in open("/proc/self/maps") if "libmooncake_client" in line]
assert libraries and all(sys.argv[2] in name for name in libraries), libraries
store.close()
"""


@unittest.skipIf("LD_PRELOAD" in os.environ, "a sanitized module cannot be installed elsewhere")
@unittest.skipIf(importlib.util.find_spec("pip") is None, "no pip (Debian: python3-pip)")
class Wheels(unittest.TestCase):
    """Without network and without the build tree."""

    def test_a_wheel_works_in_a_fresh_environment(self):
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with tempfile.TemporaryDirectory() as scratch, Pool(PROGRAMS, ("8MiB",)) as pool:
            made = subprocess.run([sys.executable, WHEEL, "--build", os.path.dirname(PROGRAMS),
                                   "--out", scratch], check=True, stdout=subprocess.PIPE, text=True)
            wheel = made.stdout.strip()
            place = os.path.join(scratch, "env")
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
            python = os.path.join(place, "bin", "python")
            subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--no-index",
                            "--no-deps", "--quiet", "--disable-pip-version-check", wheel],
                           check=True, env=env)
            subprocess.run([python, "-c", PROBE, pool.address, place], check=True, env=env)


if __name__ == "__main__":
    unittest.main(verbosity=1)
