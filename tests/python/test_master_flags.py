"""The flags that people have in their scripts for the master of the C++ package, on ours."""

import http.client
import json
import os
import subprocess
import tempfile
import unittest

from rig import PROGRAMS

from pool import Pool

MASTER = os.path.join(PROGRAMS, "mooncake_master")

# Flag as scripts write it, and what the option then is.
FLAGS = (
    ("rpc_port=50052", "rpc_port = 50052"), ("port=50053", "rpc_port = 50053"),
    ("rpc_thread_num=64", "rpc_thread_num = 64"), ("max_threads=8", "rpc_thread_num = 8"),
    ("rpc_address=0.0.0.0", "rpc_address = 0.0.0.0"), ("metrics_port=9004", "metrics_port = 9004"),
    ("enable_metric_reporting=false", "enable_metric_reporting = false"),
    ("enable_metric_reporting", "enable_metric_reporting = true"),
    ("default_kv_lease_ttl=5000", "default_kv_lease_ttl = 5s"),
    ("default_kv_lease_ttl=10s", "default_kv_lease_ttl = 10s"),
    ("default_kv_soft_pin_ttl=1800000", "default_kv_soft_pin_ttl = 1800s"),
    ("allow_evict_soft_pinned_objects=false", "allow_evict_soft_pinned_objects = false"),
    ("eviction_ratio=0.1", "eviction_ratio = 0.1"),
    ("eviction_high_watermark_ratio=0.95", "eviction_high_watermark_ratio = 0.95"),
    ("client_ttl=20", "client_ttl = 20s"),
    ("put_start_discard_timeout_sec=40", "put_start_discard_timeout_sec = 40s"),
    ("put_start_release_timeout_sec=700", "put_start_release_timeout_sec = 700s"),
    ("allocation_strategy=random", "allocation_strategy = random"),
    ("allocation_strategy=free_ratio_first", "allocation_strategy = free_ratio_first"),
    ("cluster_id=mine", "cluster_id = mine"),
    ("enable_http_metadata_server=true", "enable_http_metadata_server = true"),
    ("enable_http_metadata_server=1", "enable_http_metadata_server = true"),
    ("http_metadata_server_port=8081", "http_metadata_server_port = 8081"),
    ("http_metadata_server_host=127.0.0.1", "http_metadata_server_host = 127.0.0.1"),
)


def run(*args):
    """Status and all output of a master that ends by itself."""
    done = subprocess.run([MASTER, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60, check=False)
    return done.returncode, done.stdout


class Flags(unittest.TestCase):
    """Each flag with one dash and two, with = and without, and from a file."""

    def test_every_flag_is_understood(self):
        for flag, shown in FLAGS:
            name, _, value = flag.partition("=")
            ways = [["--" + flag], ["-" + flag]]
            if value not in ("", "true", "false", "1"):  # gflags wants the = there, too
                ways.append(["--" + name, value])
            for args in ways:
                status, text = run(*args, "--print-config")
                self.assertEqual(status, 0, (args, text))
                self.assertIn(shown + " (flag)", text, args)

    def test_every_option_may_stand_in_a_file(self):
        names = {flag.partition("=")[0]: flag.partition("=")[2] for flag, _ in FLAGS
                 if "=" in flag and flag.partition("=")[0] not in ("port", "max_threads")}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({name: json.loads(value) if value in ("true", "false", "1") else value
                       for name, value in names.items() if name != "enable_http_metadata_server"},
                      file)
            file.flush()
            for way in (["--config_path=" + file.name], ["-config_path", file.name]):
                status, text = run(*way, "--print-config")
                self.assertEqual(status, 0, text)
                for name in names:
                    if name != "enable_http_metadata_server":
                        self.assertRegex(text, rf"(?m)^ *{name} = .*\(file ", name)
                status, text = run(*way, "--cluster_id=flag", "--print-config")
                self.assertIn("cluster_id = flag (flag)", text)  # the flag wins

    def test_what_we_do_not_have_stops_the_start_with_a_sentence(self):
        for flag, said in (("--enable_offload=true", "enable_offload"),
                           ("--root_fs_dir=/x", "root_fs_dir"), ("--enable_ha=true", "enable_ha"),
                           ("--allocation_strategy=cxl", "allocation_strategy"),
                           ("-etcd_endpoints=a:1", "etcd_endpoints"),
                           ("--rpc_thread_num=0", "rpc_thread_num"),
                           ("--http_metadata_server_port=99999", "http_metadata_server_port")):
            status, text = run("--rpc_port=0", "--metrics_port=0", flag)
            self.assertEqual(status, 2, flag)
            self.assertIn(said, text)
            self.assertNotIn("serving", text)

    def test_a_master_with_all_of_them_serves(self):
        flags = {flag.partition("=")[0]: flag for flag, _ in FLAGS if "port=" not in flag and
                 not flag.startswith("max_threads")}.values()
        with Pool(PROGRAMS, ("16MiB",), ["--" + flag for flag in flags] +
                  ["--http_metadata_server_port=0"]) as pool:
            ports = pool.master.ports()
            for port, path in ((ports["metrics_port"], "/get_all_segments"),
                               (ports["http_metadata_server_port"], "/health")):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("GET", path)
                answer = connection.getresponse()
                self.assertEqual(answer.status, 200)
                self.assertTrue(answer.read())
                connection.close()


if __name__ == "__main__":
    unittest.main(verbosity=1)
