"""A registry for tests of the client: it keeps schemas in memory, checks nothing, and fails as it is told."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID


class FakeRegistry:
    """Schemas by id, versions by subject, and the requests that came."""

    def __init__(self) -> None:
        self.url = ""
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.failures: list[tuple[int, dict[str, Any]]] = []
        """The answers of the next requests, in place of the proper ones."""
        self.lock = threading.Lock()

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        with self.lock:
            self.requests.append((method, target))
            if self.failures:
                return self.failures.pop(0)
            parts = urlsplit(target)
            path = [unquote(each) for each in parts.path.strip("/").split("/")]
            return self._answer(method, path, parse_qs(parts.query), body)

    def _answer(self, method: str, path: list[str], query: Any, body: Any) -> tuple[int, Any]:
        match (method, path):
            case ("POST", ["subjects", subject, "versions"]):
                number = self._number(body)
                versions = self.subjects.setdefault(subject, [])
                if number not in versions:
                    versions.append(number)
                return 200, {"id": number + 1, "guid": str(UUID(int=number + 1))}
            case ("POST", ["subjects", subject]):
                number = self._number(body)
                if number not in self.subjects.get(subject, []):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self._version(subject, self.subjects[subject].index(number) + 1)
            case ("GET", ["subjects", subject, "versions", version]):
                count = len(self.subjects.get(subject, []))
                number = count if version == "latest" else int(version)
                if not 0 < number <= count:
                    return 404, {"error_code": 40402, "message": f"Version {version} not found."}
                return 200, self._version(subject, number)
            case ("GET", ["schemas", "ids", number]):
                if not 0 < int(number) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, self.schemas[int(number) - 1]
            case ("GET", ["schemas", "guids", guid]):
                return 200, self.schemas[UUID(guid).int - 1]
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _number(self, body: dict[str, Any]) -> int:
        given = {name: value for name, value in body.items() if value}
        if given not in self.schemas:
            self.schemas.append(given)
        return self.schemas.index(given)

    def _version(self, subject: str, version: int) -> dict[str, Any]:
        number = self.subjects[subject][version - 1]
        return {
            "subject": subject,
            "version": version,
            "id": number + 1,
            **self.schemas[number],
        }


@contextmanager
def fake_registry(tls: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    """A registry that listens on a port of its own."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            registry.headers.append(dict(self.headers))
            status, answer = registry.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: tests read `requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    registry.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
