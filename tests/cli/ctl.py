"""mooncakectl on real pools: how tests call it. The first argument is the programs' directory."""

import json
import os
import socket
import subprocess
import sys
import unittest

from pool import Pool, die_with_parent

PROGRAMS = sys.argv.pop(1)
SEGMENT = 256 << 20


def run(address, *args, data=b""):
    """Exit status, stdout, stderr."""
    env = {**os.environ, "MOONCAKE_MASTER": address}
    result = subprocess.run([os.path.join(PROGRAMS, "mooncakectl"), *args], input=data, env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False,
                            preexec_fn=die_with_parent)
    return result.returncode, result.stdout, result.stderr.decode()


def free_port():
    """A port on which nobody listens (any more)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class OnePool(unittest.TestCase):
    """Tests that share a pool of two stores; each uses keys of its own."""

    @classmethod
    def setUpClass(cls):
        cls.pool = Pool(PROGRAMS, [str(SEGMENT), str(SEGMENT)])
        cls.addClassCleanup(cls.pool.close)

    def ctl(self, *args, data=b""):
        return run(self.pool.address, *args, data=data)

    def ok(self, *args, data=b""):
        """stdout of a command that must succeed."""
        status, out, err = self.ctl(*args, data=data)
        self.assertEqual((status, err), (0, ""), args[:3])
        return out

    def json(self, *args, status=0):
        got, out, err = self.ctl(*args, "--json")
        self.assertEqual(got, status, err)
        return json.loads(out)
