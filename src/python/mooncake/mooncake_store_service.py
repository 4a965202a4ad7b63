"""A process that lends memory to the pool, and gives access to the pool over HTTP.

    python3 -m mooncake.mooncake_store_service --config=FILE --port=8080

PUT /api/put with {"key": ..., "value": ...}; GET /api/get/{key}; GET /api/exist/{key};
DELETE /api/remove/{key}; DELETE /api/remove_all. Errors are JSON with code and text.
"""

import argparse
import json
import os
import signal
import sys
import threading
from urllib.parse import unquote, urlsplit

from mooncake.http_json import Handler, HttpError, make_server
from mooncake.mooncake_config import MooncakeConfig
from mooncake.store import MooncakeDistributedStore

MISS, BAD_KEY, NO_SPACE = -704, -400, -200
BODY_BYTES_MAX = 256 << 20


def _json(http_status, /, **values):
    return http_status, "application/json", json.dumps(values).encode()


def _raise_for(code, what):
    """The answer for a negative code of the store."""
    status = {MISS: 404, BAD_KEY: 400, -600: 400, NO_SPACE: 507, -703: 409, -705: 409, -706: 409,
              -708: 409}.get(code, 503)
    raise HttpError(status, code, what)


class StoreHandler(Handler):
    """Answers of the service."""

    store = None
    body_bytes_max = BODY_BYTES_MAX

    def route(self, method):
        path = urlsplit(self.path).path
        parts = path.split("/", 3)
        name = parts[2] if len(parts) > 2 and parts[1] == "api" else ""
        call = {("PUT", "put"): self._put, ("GET", "get"): self._get,
                ("GET", "exist"): self._exist, ("DELETE", "remove"): self._remove,
                ("DELETE", "remove_all"): self._remove_all}.get((method, name))
        if call is None:
            raise HttpError(404, MISS, f"no such page: {method} {path}")
        if name in ("put", "remove_all"):
            return call()
        key = unquote(parts[3]) if len(parts) > 3 else ""
        if not key:
            raise HttpError(400, BAD_KEY, "the path ends without a key")
        return call(key)

    def _put(self):
        try:
            values = json.loads(self.body())
        except ValueError as error:  # of JSON or of UTF-8
            raise HttpError(400, -600, f"the body is no JSON: {error}") from None
        except RecursionError:
            raise HttpError(400, -600, "the body is nested too deeply") from None
        key = values.get("key") if isinstance(values, dict) else None
        value = values.get("value") if isinstance(values, dict) else None
        if not isinstance(key, str) or not isinstance(value, str) or not key or not value:
            raise HttpError(400, -600, "key and value are needed: two texts that are not empty")
        try:
            code = self.store.put(key, value.encode())
        except UnicodeEncodeError:
            raise HttpError(400, -600, "value: is no Unicode text") from None
        if code != 0:
            _raise_for(code, "the value was not stored")
        return _json(200, status="success", code=0)

    def _get(self, key):
        size = self.store.get_size(key)
        if size < 0:
            _raise_for(size, "no such key" if size == MISS else "the key cannot be read")
        value = self.store.get_buffer(key)
        data = b"" if value is None else bytes(value)
        if value is None or value.check() != 0:
            _raise_for(MISS, "no such key")
        return 200, "application/octet-stream", data

    def _exist(self, key):
        code = self.store.is_exist(key)
        if code < 0:
            _raise_for(code, "bad key")
        return _json(200, exists=code == 1)

    def _remove(self, key):
        code = self.store.remove(key)
        if code != 0:
            _raise_for(code, "the key was not removed")
        return _json(200, status="success", code=0)

    def _remove_all(self):
        count = self.store.remove_all()
        if count < 0:
            _raise_for(count, "the keys were not removed")
        return _json(200, status="success", removed=count)


def serve(store, host, port):
    """Serve until SIGTERM or SIGINT; the store is the caller's."""
    server = make_server(host, port, StoreHandler, store=store)
    stop = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stop.set())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    print(f"mooncake.mooncake_store_service: port {server.server_address[1]}", flush=True)
    stop.wait()
    server.shutdown()


def main(argv=None):
    """0, or 1 when the pool cannot be joined."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default=os.getenv("MOONCAKE_CONFIG_PATH"),
                        help="JSON file; without one, the environment is read")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8080, help="0: the kernel picks one")
    args = parser.parse_args(argv)
    try:
        config = (MooncakeConfig.from_file(args.config) if args.config
                  else MooncakeConfig.load_from_env())
    except (OSError, ValueError) as error:
        print(f"mooncake_store_service: configuration: {error}", file=sys.stderr)
        return 1
    store = MooncakeDistributedStore()
    if store.setup(config.local_hostname, config.metadata_server, config.global_segment_size,
                   config.local_buffer_size, config.protocol, config.device_name,
                   config.master_server_address) != 0:
        return 1
    try:
        serve(store, args.host, args.port)
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
