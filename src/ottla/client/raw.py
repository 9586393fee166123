"""A blocking connection that sends messages exactly as they are given: for tools and tests."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from ottla.model import Endpoint
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import frame_request, read_size, response_header_is_flexible

TIMEOUT_SECONDS = 30.0


class RawConnection:
    """One connection; responses come in the order of the requests, which may be sent ahead."""

    def __init__(self, bootstrap_server: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        endpoint = Endpoint.parse(bootstrap_server)
        self.socket = socket.create_connection((endpoint.host, endpoint.port), timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next_id = 0

    def call(self, request: Any, response_class: type[Any], version: int) -> Any:
        """Send a request and read its response."""
        self.send(request, version)
        return self.receive(response_class, version)

    def send(self, request: Any, version: int, client_id: str | None = "ottla-raw") -> int:
        """Send a request; returns its correlation id."""
        correlation_id = self._next_id
        self._next_id += 1
        self.socket.sendall(frame_request(request, version, correlation_id, client_id))
        return correlation_id

    def receive(self, response_class: type[Any], version: int) -> Any:
        """Read the next response."""
        info = info_of(response_class)
        flexible = response_header_is_flexible(info.api_key, version >= info.flexible_since)
        return decode_message(response_class, version, self.receive_frame(), 5 if flexible else 4)

    def receive_frame(self) -> bytes:
        """The bytes of the next response: correlation id, header, message."""
        (size,) = read_size(self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionResetError("the broker closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
