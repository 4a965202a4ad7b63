"""What the HTTP services of this package share: answers as text or JSON, bodies with a limit."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

IDLE_SECONDS_MAX = 60


class HttpError(Exception):
    """An answer that is no success."""

    def __init__(self, status, code, text):
        super().__init__(text)
        self.status = status
        self.code = code


class Handler(BaseHTTPRequestHandler):
    """One request. Subclasses give `route(method)`, which returns (status, type, bytes)."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS_MAX  # a peer that says nothing is let go
    body_bytes_max = 1 << 20

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        """Requests are not logged."""

    def body(self):
        """The request's body. HttpError if it is too long or of unknown length."""
        text = self.headers.get("Content-Length", "")
        if not text.isascii() or not text.isdigit():
            self.close_connection = True
            raise HttpError(411, -600, "a Content-Length is needed")
        if len(text) > 18 or int(text) > self.body_bytes_max:
            self.close_connection = True
            raise HttpError(413, -600, f"a body has at most {self.body_bytes_max} bytes")
        body = self.rfile.read(int(text))
        if len(body) != int(text):
            self.close_connection = True
            raise HttpError(400, -600, "the body is shorter than its Content-Length")
        return body

    def _answer(self, method):
        try:
            status, kind, body = self.route(method)
        except HttpError as error:
            status, kind = error.status, "application/json"
            body = json.dumps({"code": error.code, "error": str(error)}).encode()
        if method in ("GET", "DELETE") and self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # a body that nobody has read
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def route(self, method):
        """(status, content type, body) of the answer."""
        raise NotImplementedError

    def do_GET(self):  # pylint: disable=invalid-name
        """HTTP GET."""
        self._answer("GET")

    def do_PUT(self):  # pylint: disable=invalid-name
        """HTTP PUT."""
        self._answer("PUT")

    def do_DELETE(self):  # pylint: disable=invalid-name
        """HTTP DELETE."""
        self._answer("DELETE")


def make_server(host, port, handler, **shared):
    """A server on host:port (0: the kernel picks) whose handlers have @shared as attributes."""
    server = ThreadingHTTPServer((host, port), type("Bound", (handler,), shared))
    server.daemon_threads = True
    return server
