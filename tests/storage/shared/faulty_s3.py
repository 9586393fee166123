"""A small server that speaks as much of S3 as the engine uses, and misbehaves as a test says."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class FaultyS3:
    """What the server has and was asked. Each fault is for one request, in order; slow ones wait for `release`."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.stored: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.release = threading.Event()

    def url(self, more: str = "") -> str:
        keys = "access_key_id=AKIATESTTESTTESTTEST&secret_access_key=verysecret"
        return f"s3://bucket/below?endpoint={self.endpoint}&region=us-east-1&{keys}{more}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: FaultyS3  # of the subclass that a server makes

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, status: int, code: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>As the test says.</Message></Error>"
        self.answer(status, text.encode())

    def _fault(self) -> str:
        path = unquote(urlsplit(self.path).path)
        self.state.requests.append((self.command, path))
        self.state.headers.append({name.lower(): value for name, value in self.headers.items()})
        return self.state.faults.pop(0) if self.state.faults else ""

    def _refused(self, fault: str) -> bool:
        if fault == "slow":
            self.state.release.wait(30)
        elif fault == "drop":
            self.close_connection = True
            return True
        elif fault.isdigit() or ":" in fault:
            status, _, code = fault.partition(":")
            self.fail(int(status), code or "SlowDown")
            return True
        return False

    def do_PUT(self) -> None:
        fault = self._fault()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._refused(fault):
            return
        self.state.stored[unquote(urlsplit(self.path).path)] = body
        if fault == "stored-then-slow":
            self.state.release.wait(30)
        if fault == "stored-then-drop":
            self.close_connection = True
            return
        self.answer(200, headers={"ETag": '"1"'})

    def do_GET(self) -> None:
        fault = self._fault()
        if self._refused(fault):
            return
        data = self.state.stored.get(unquote(urlsplit(self.path).path))
        if data is None:
            self.fail(404, "NoSuchKey")
            return
        start, end, status = 0, len(data), 200
        wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
        if wanted is not None:
            start, end, status = int(wanted[1]), min(int(wanted[2]) + 1, len(data)), 206
            if start >= len(data):
                self.fail(416, "InvalidRange")
                return
        if fault == "short":
            end -= 1
        body = data[start:end]
        headers = {
            "Content-Range": f"bytes {start}-{end - 1}/{len(data)}",
            "ETag": '"1"',
            "Last-Modified": "Thu, 19 Nov 2026 20:00:00 GMT",
        }
        if fault == "truncated":
            headers["Content-Length"] = str(len(body))
            body = body[: len(body) // 2]
            self.close_connection = True
        self.answer(status, body, headers)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        fault = self._fault()
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self._refused(fault):
            return
        folder = unquote(urlsplit(self.path).path).rstrip("/")
        keys = re.findall("<Key>([^<]*)</Key>", body)
        for key in keys:
            self.state.stored.pop(f"{folder}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())


@contextmanager
def faulty_s3(certificate: Path | None = None, key: Path | None = None) -> Iterator[FaultyS3]:
    """The server, with TLS if it has a certificate; it ends with the block."""
    state = FaultyS3()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # type: ignore[method-assign]
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    state.endpoint = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        state.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
