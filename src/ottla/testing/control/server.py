"""JSON over HTTP/1.1 for the control API."""

from __future__ import annotations

import ipaddress
import json
import logging
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from ottla.broker.network.listen_error import ListenError
from ottla.errors import ConfigError, OttlaError
from ottla.model import Endpoint
from ottla.testing.broker import Broker
from ottla.testing.control.json_shapes import JsonObject, parse_body
from ottla.testing.control.routes import Control, MethodError, NoSuchThingError

MAX_BODY_BYTES: Final = 16 << 20
# How long a connection may be silent.
IDLE_SECONDS: Final = 60.0
MAX_ERROR_CHARACTERS: Final = 5000

logger = logging.getLogger("ottla.testing.control")


class _BadRequestError(Exception):
    """A request that is not answered any further; its connection is closed."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ControlServer:
    """Serves the control API of a broker, on threads of its own."""

    def __init__(self, broker: Broker, listen: Endpoint, *, allows_remote: bool = False) -> None:
        try:
            self._server = _HttpServer(Control(broker), listen, allows_remote)
        except OSError as error:
            raise ListenError(listen, error, " for control") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="ottla-control", daemon=True
        )

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        host, port, *_ = self._server.server_address
        return Endpoint(str(host), int(port))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _HttpServer(ThreadingHTTPServer):
    # More than a test suite has at once; each has a thread.
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, control: Control, listen: Endpoint, allows_remote: bool) -> None:
        self.control = control
        self.allows_remote = allows_remote
        self._listen_host = listen.host.lower()
        found = socket.getaddrinfo(*listen, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__(listen, _Handler)

    def server_bind(self) -> None:
        # That of HTTPServer also asks the name service for the name of the host.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that cut its connection is no news."""
        logger.debug("the connection of %s ended", client_address, exc_info=True)

    def is_asked_as(self, host: str) -> bool:
        """Whether a Host header names this machine.

        The name of a page can be made to point here (DNS rebinding); the requests of that page carry its name.
        """
        name = urlsplit(f"//{host}").hostname
        return name is not None and (name == self._listen_host or is_loopback(name))


def is_loopback(host: str) -> bool:
    """Whether an address or a name is that of this machine for itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Handler(BaseHTTPRequestHandler):
    """A connection to the control API."""

    server: _HttpServer
    protocol_version = "HTTP/1.1"
    server_version = "ottla-test-broker"
    timeout = IDLE_SECONDS
    # Head and body of an answer are separate writes.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def do_PATCH(self) -> None:
        self._handle()

    def _handle(self) -> None:
        allowed = None
        try:
            status, answer = HTTPStatus.OK, self._answer()
        except MethodError as error:
            allowed = str(error)
            status, answer = HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"write {error} here"}
        except NoSuchThingError as error:
            status, answer = HTTPStatus.NOT_FOUND, {"error": str(error)}
        except _BadRequestError as error:
            self.close_connection = True
            status, answer = error.status, {"error": str(error)}
        except ConfigError as error:
            status, answer = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except (OttlaError, AssertionError, TimeoutError) as error:
            status, answer = HTTPStatus.CONFLICT, {"error": str(error) or type(error).__name__}
        except Exception as error:
            logger.exception("%s %s failed", self.command, self.path)
            text = f"{type(error).__name__}: {error}: this is a bug of the test broker"
            status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": text}
        self._send(status, answer, allowed)

    def _answer(self) -> JsonObject:
        body = self._read_body()
        self._check_sender()
        try:
            url = urlsplit(self.path)
        except ValueError as error:
            raise ConfigError(f"the path cannot be read: {error}") from error
        path = [unquote(segment) for segment in url.path.strip("/").split("/")]
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        return self.server.control.answer(self.command, path, query, parse_body(body))

    def _check_sender(self) -> None:
        """Refuses pages in a browser on this machine."""
        if "Origin" in self.headers:
            raise _BadRequestError(HTTPStatus.FORBIDDEN, "pages of browsers may not control it")
        hosts = self.headers.get_all("Host", [""])
        try:
            is_right = all(map(self.server.is_asked_as, hosts))
        except ValueError:  # no address at all
            is_right = False
        if not is_right and not self.server.allows_remote:
            raise _BadRequestError(
                HTTPStatus.FORBIDDEN,
                f"Host {', '.join(hosts)!r} is not this machine: ask for http://127.0.0.1, "
                "or start the broker with --allow-remote-control",
            )

    def _read_body(self) -> bytes:
        if "Transfer-Encoding" in self.headers:
            raise _BadRequestError(
                HTTPStatus.LENGTH_REQUIRED, "send the body whole, with a Content-Length"
            )
        text = self.headers.get("Content-Length", "0")
        if not (text.isascii() and text.isdigit()):
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, f"Content-Length {text!r} is no number")
        if len(text) > 18 or int(text) > MAX_BODY_BYTES:
            raise _BadRequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MAX_BODY_BYTES} bytes"
            )
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, "the body ended early")
        return body

    def _send(self, status: HTTPStatus, answer: JsonObject, allowed: str | None) -> None:
        if isinstance(answer.get("error"), str):
            answer = {**answer, "error": answer["error"][:MAX_ERROR_CHARACTERS]}
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if allowed is not None:
            self.send_header("Allow", allowed)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the HTTP server itself refuses is JSON like all other answers."""
        self.close_connection = True
        if self.request_version == "HTTP/0.9":  # so it is called when the first line made no sense
            self.request_version = self.protocol_version
        status = HTTPStatus(code)
        self._send(status, {"error": message or status.phrase}, None)

    def log_message(self, format: str, *arguments: object) -> None:
        logger.debug(format, *arguments)
