"""The modules beside the store: asyncio, configuration, HTTP services."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from rig import PROGRAMS, PoolTest

from pool import Pool, die_with_parent

from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.mooncake_config import MooncakeConfig
from mooncake.sizes import parse_size


class Modules(PoolTest):
    """One test each."""

    def test_asyncio(self):
        async def work():
            store = MooncakeDistributedStoreAsync()
            self.assertEqual(await store.async_setup("localhost", "", 0, 0, "tcp", "",
                                                     self.pool.address), 0)
            codes = await asyncio.gather(*(store.async_put(f"a{i}", b"v%d" % i) for i in range(9)))
            self.assertEqual(codes, [0] * 9)
            self.assertEqual(await store.async_get(key="a3"), b"v3")
            with self.assertRaises(TypeError):
                await store.async_get(3)
            with self.assertRaises(AttributeError):
                store.async_nothing  # pylint: disable=pointless-statement
            self.assertEqual(await store.async_close(), 0)

        asyncio.run(work())

    def test_sizes(self):
        for text, size in (("16MB", 16 << 20), ("80GB", 80 << 30), ("4.5gb", 9 << 29), (7, 7),
                           ("16 MB", 16 << 20), ("3355443200", 3355443200), ("0", 0), ("1KiB", 1024)):
            self.assertEqual(parse_size(text), size)
        for wrong in ("50%", "", "-1", -1, "MB", "1e3", "1 2", None, True):
            with self.assertRaises(ValueError):
                parse_size(wrong)

    def config_file(self, **values):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)
        return path

    def test_configuration(self):
        needed = {"local_hostname": "h", "metadata_server": "P2PHANDSHAKE",
                  "master_server_address": "m:1"}
        config = MooncakeConfig.from_file(self.config_file(**needed))
        self.assertEqual((config.global_segment_size, config.local_buffer_size, config.protocol,
                          config.device_name, config.tenant_id, config.client_http_port),
                         (3355443200, 1073741824, "tcp", "", "default", 9300))
        path = self.config_file(**needed, global_segment_size="4.5gb", local_buffer_size=0)
        with mock.patch.dict(os.environ, MOONCAKE_CONFIG_PATH=path):
            config = MooncakeConfig.load_from_env()
        self.assertEqual((config.global_segment_size, config.local_buffer_size), (9 << 29, 0))
        with self.assertRaises(ValueError):
            MooncakeConfig.from_file(self.config_file(**needed, global_segment_size=-1))
        with self.assertRaisesRegex(ValueError, "master_server_address"):
            MooncakeConfig.from_file(self.config_file(local_hostname="h", metadata_server="m"))
        with mock.patch.dict(os.environ, MOONCAKE_MASTER="m:1", MOONCAKE_GLOBAL_SEGMENT_SIZE="1GB"):
            os.environ.pop("MOONCAKE_CONFIG_PATH", None)
            config = MooncakeConfig.load_from_env()
        self.assertEqual((config.master_server_address, config.global_segment_size),
                         ("m:1", 1 << 30))

    def start(self, module, *args):
        """The port it serves on, and the process."""
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", module, "--host=127.0.0.1", "--port=0", *args],
            stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return int(process.stdout.readline().rsplit(" ", 1)[-1]), process

    def ask(self, port, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, path, body)
        answer = connection.getresponse()
        result = answer.status, answer.read()
        connection.close()
        return result

    def test_metadata_service(self):
        port, _ = self.start("mooncake.http_metadata_server")
        self.check_metadata(port)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.addCleanup(connection.close)
        connection.putrequest("PUT", "/metadata?key=k")
        connection.putheader("Content-Length", str(2 << 20))  # refused before a byte is sent
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 413)

    def test_metadata_service_of_the_master(self):
        with Pool(PROGRAMS, (), ("--enable_http_metadata_server=true", "--http_metadata_server_port=0",
                                 "--http_metadata_server_host=127.0.0.1")) as pool:
            port = pool.master.ports()["http_metadata_server_port"]
            self.check_metadata(port)
            self.assertEqual(self.ask(port, "PUT", "/metadata?key=k", bytes(2 << 20))[0], 413)

    def check_metadata(self, port):
        """What both services answer."""
        self.assertEqual(self.ask(port, "GET", "/health")[0], 200)
        for wrong in ("/metadata?key=", "/metadata?other=1", "/metadata?key=" + "k" * 5000,
                      "/metadata?key=a%00b", "/metadata?" + "&".join("a=1" for _ in range(200))):
            for method in ("GET", "PUT", "DELETE"):
                status = self.ask(port, method, wrong, b"v" if method == "PUT" else None)[0]
                self.assertEqual(status, 400, (method, wrong[:40]))
        self.assertEqual(self.ask(port, "PUT", "/metadata?key=empty", b"")[0], 200)
        self.assertEqual(self.ask(port, "GET", "/metadata?key=empty"), (200, b""))
        self.assertEqual(self.ask(port, "GET", "/metadata?key=a%2Fb")[0], 404)
        self.assertEqual(self.ask(port, "PUT", "/metadata?key=a%2Fb", b'{"x": 1}')[0], 200)
        self.assertEqual(self.ask(port, "GET", "/metadata?key=a%2Fb"), (200, b'{"x": 1}'))
        self.assertEqual(self.ask(port, "PUT", "/metadata?key=a%2Fb", b"y" * (1 << 20))[0], 200)
        self.assertEqual(self.ask(port, "GET", "/metadata?key=a%2Fb"), (200, b"y" * (1 << 20)))
        self.assertEqual(self.ask(port, "DELETE", "/metadata?key=a%2Fb")[0], 200)
        self.assertEqual(self.ask(port, "DELETE", "/metadata?key=a%2Fb")[0], 404)
        self.assertEqual(self.ask(port, "GET", "/metadata")[0], 400)
        self.assertEqual(self.ask(port, "GET", "/other")[0], 404)
        statuses = [self.ask(port, "PUT", f"/metadata?key=big{i}", bytes(1 << 20))[0]
                    for i in range(260)]
        self.assertEqual(set(statuses), {200, 507})  # 256 MiB in all
        self.assertEqual(self.ask(port, "DELETE", "/metadata?key=big0")[0], 200)
        self.assertEqual(self.ask(port, "PUT", "/metadata?key=big0", bytes(1 << 20))[0], 200)

    def test_store_service(self):
        path = self.config_file(local_hostname="localhost", metadata_server="P2PHANDSHAKE",
                                master_server_address=self.pool.address,
                                global_segment_size="16MB")
        port, process = self.start("mooncake.mooncake_store_service", "--config=" + path)
        body = json.dumps({"key": "a/b c", "value": "välue"})
        self.assertEqual(self.ask(port, "PUT", "/api/put", body)[0], 200)
        self.assertEqual(self.store.get("a/b c"), "välue".encode())
        self.assertEqual(self.ask(port, "GET", "/api/get/a/b%20c"), (200, "välue".encode()))
        self.assertEqual(json.loads(self.ask(port, "GET", "/api/exist/a%2Fb%20c")[1]),
                         {"exists": True})
        self.assertEqual(json.loads(self.ask(port, "GET", "/api/exist/no")[1]), {"exists": False})
        self.assertEqual(self.ask(port, "GET", "/api/get/no")[0], 404)
        self.assertEqual(self.ask(port, "DELETE", "/api/remove/no")[0], 404)
        status, text = self.ask(port, "DELETE", "/api/remove/a/b%20c")
        self.assertEqual((status, json.loads(text)["code"]), (409, -706))  # the reads gave a lease
        for wrong in (b"", b"{", b"[]", b"3", b'{"key": "k"}', b'{"key": "", "value": "v"}',
                      b'{"key": 1, "value": "v"}', b'\xff', b"[" * 100000,
                      b'{"key": "k", "value": "\\ud800"}', b'{"key": "a\\u0000", "value": "v"}'):
            status, text = self.ask(port, "PUT", "/api/put", wrong)
            self.assertEqual(status, 400, wrong[:20])
            self.assertIn("error", json.loads(text))
        self.assertEqual(self.ask(port, "GET", "/api/get/")[0], 400)
        self.assertEqual(self.ask(port, "GET", "/nothing")[0], 404)
        self.assertEqual(self.ask(port, "DELETE", "/api/remove_all")[0], 200)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
