"""A relay before a broker that notes which requests pass, in which versions."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.faults.processes import free_port

from ottla import Broker
from ottla.model import Endpoint

_START = struct.Struct(">ihh")  # size, api key, version
READ_BYTES = 65536


class Recorder:
    """Listens at once; relays when it knows where to."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        # (api key, version) of every request.
        self.seen: list[tuple[int, int]] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def versions_of(self, api_key: int) -> set[int]:
        return {version for key, version in self.seen if key == api_key}

    def relay_to(self, upstream: str) -> None:
        self._spawn(self._accept, Endpoint.parse(upstream))

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self, upstream: Endpoint) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection((upstream.host, upstream.port))
            except OSError:  # a client that is still closing, when the broker has gone
                client.close()
                continue
            for one in (client, broker):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, broker]
            self._spawn(self._requests, client, broker)
            self._spawn(self._answers, broker, client)

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        pending = bytearray()

        def note(data: bytes) -> None:
            nonlocal pending
            pending += data
            while len(pending) >= _START.size:
                size, api_key, version = _START.unpack_from(pending)
                if len(pending) < size + 4:
                    break
                self.seen.append((api_key, version))
                del pending[: size + 4]

        _relay(client, broker, note)

    def _answers(self, broker: socket.socket, client: socket.socket) -> None:
        _relay(broker, client, lambda data: None)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self._sockets:
            one.close()
        for thread in self._threads:
            thread.join(5)


def _relay(source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
    """Until either side is gone; then both are."""
    with suppress(OSError):
        while data := source.recv(READ_BYTES):
            note(data)
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def recorded_broker() -> Iterator[Recorder]:
    """A broker that clients know under the address of the recorder."""
    recorder = Recorder()
    listen = f"127.0.0.1:{free_port()}"
    try:
        with Broker(listen=listen, advertise=recorder.address):
            recorder.relay_to(listen)
            yield recorder
    finally:
        recorder.close()
