"""A metadata service for programs that want one: keys and values in memory, over HTTP.

    python3 -m mooncake.http_metadata_server --port 8080

GET, PUT and DELETE /metadata?key=...; GET /health. This pool itself does not need it.
"""

import argparse
import sys
import threading
from urllib.parse import parse_qs, urlsplit

from mooncake.http_json import Handler, HttpError, make_server

KEYS_MAX = 100000
BYTES_MAX = 256 << 20  # of keys and values together
KEY_LEN_MAX = 4096
TEXT = "text/plain; charset=utf-8"


class Metadata:
    """The keys, guarded by a lock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.values = {}
        self.bytes = 0


class MetadataHandler(Handler):
    """Answers of the service."""

    metadata = None

    def route(self, method):
        url = urlsplit(self.path)
        if url.path == "/health" and method == "GET":
            return 200, TEXT, b"OK"
        if url.path != "/metadata":
            raise HttpError(404, -704, f"no such page: {url.path}")
        try:
            key = parse_qs(url.query, max_num_fields=64).get("key", [""])[0]
        except ValueError:
            raise HttpError(400, -600, "the query has too many fields") from None
        if not key or len(key) > KEY_LEN_MAX or "\0" in key:
            raise HttpError(400, -400, f"key: write ?key=KEY, of 1 to {KEY_LEN_MAX} characters")
        return getattr(self, "metadata_" + method.lower())(key)

    def metadata_get(self, key):
        """The value, or 404."""
        with self.metadata.lock:
            value = self.metadata.values.get(key)
        if value is None:
            return 404, TEXT, b"metadata not found"
        return 200, "application/json", value

    def metadata_put(self, key):
        """Store or replace."""
        value = self.body()
        metadata = self.metadata
        with metadata.lock:
            old = metadata.values.get(key)
            if old is None and len(metadata.values) >= KEYS_MAX:
                raise HttpError(507, -200, f"at most {KEYS_MAX} keys are kept")
            grown = len(value) - len(old) if old is not None else len(value) + len(key)
            if metadata.bytes + grown > BYTES_MAX:
                raise HttpError(507, -200, f"at most {BYTES_MAX} bytes are kept")
            metadata.bytes += grown
            metadata.values[key] = value
        return 200, TEXT, b"metadata updated"

    def metadata_delete(self, key):
        """Remove, or 404."""
        with self.metadata.lock:
            value = self.metadata.values.pop(key, None)
            if value is not None:
                self.metadata.bytes -= len(key) + len(value)
        return (404, TEXT, b"metadata not found") if value is None else \
            (200, TEXT, b"metadata deleted")


def main(argv=None):
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8080, help="0: the kernel picks one")
    args = parser.parse_args(argv)
    server = make_server(args.host, args.port, MetadataHandler, metadata=Metadata())
    print(f"mooncake.http_metadata_server: port {server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
