"""As much of Redis as an example needs: hashes, WATCH, MULTI and EXEC, over RESP 2 and 3 on 127.0.0.1."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from typing import Any, Self

QUEUED = object()


class _Connection(socketserver.StreamRequestHandler):
    """One client; a command is an array of byte strings."""

    server: SmallRedis

    def setup(self) -> None:
        super().setup()
        self.protocol = 2
        self.queued: list[list[bytes]] | None = None
        self.watched: dict[bytes, int] = {}

    def handle(self) -> None:
        while header := self.rfile.readline():
            command = [self._read_string() for _ in range(int(header[1:]))]
            with self.server.lock:
                answer = self._answer(command)
            self.wfile.write(encode(answer, self.protocol))

    def _read_string(self) -> bytes:
        size = int(self.rfile.readline()[1:])
        data = self.rfile.read(size + 2)
        return data[:size]

    def _answer(self, command: list[bytes]) -> object:
        name = command[0].decode().lower()
        if name == "hello":
            self.protocol = int(command[1])
            return {b"proto": self.protocol}
        if name == "multi":
            self.queued = []
            return True
        if name == "exec":
            return self._execute()
        if self.queued is not None:
            self.queued.append(command)
            return QUEUED
        if name == "watch":
            self.watched = {key: self.server.versions.get(key, 0) for key in command[1:]}
            return True
        if name == "unwatch":
            self.watched = {}
            return True
        return self.server.run(command)

    def _execute(self) -> object:
        queued, self.queued = self.queued or [], None
        watched, self.watched = self.watched, {}
        if any(self.server.versions.get(key, 0) != seen for key, seen in watched.items()):
            return None
        return [self.server.run(command) for command in queued]


class SmallRedis(socketserver.ThreadingTCPServer):
    """The server; its data is in `hashes`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.lock = threading.Lock()
        self.hashes: dict[bytes, dict[bytes, bytes]] = {}
        self.versions: dict[bytes, int] = {}
        self.commands: dict[str, Callable[..., object]] = {
            "hget": lambda key, field: self.hashes.get(key, {}).get(field),
            "hgetall": lambda key: dict(self.hashes.get(key, {})),
            "hset": self._set,
            "hincrby": self._increase,
            "client": lambda *words: True,
        }

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def run(self, command: list[bytes]) -> object:
        """Runs one command."""
        found = self.commands.get(command[0].decode().lower())
        return ValueError(command[0].decode()) if found is None else found(*command[1:])

    def _set(self, key: bytes, field: bytes, value: bytes) -> int:
        fields = self.hashes.setdefault(key, {})
        is_new = field not in fields
        fields[field] = value
        self.versions[key] = self.versions.get(key, 0) + 1
        return int(is_new)

    def _increase(self, key: bytes, field: bytes, number: bytes) -> int:
        total = int(self.hashes.get(key, {}).get(field, b"0")) + int(number)
        self._set(key, field, str(total).encode())
        return total

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *details: Any) -> None:
        self.shutdown()
        self.server_close()


def encode(answer: object, protocol: int) -> bytes:
    """An answer as it travels."""
    if answer is True:
        return b"+OK\r\n"
    if answer is QUEUED:
        return b"+QUEUED\r\n"
    if answer is None:
        return b"_\r\n" if protocol == 3 else b"$-1\r\n"
    if isinstance(answer, int):
        return b":%d\r\n" % answer
    if isinstance(answer, bytes):
        return b"$%d\r\n%s\r\n" % (len(answer), answer)
    if isinstance(answer, dict):
        parts = [encode(part, protocol) for pair in answer.items() for part in pair]
        head = b"%%%d\r\n" % len(answer) if protocol == 3 else b"*%d\r\n" % len(parts)
        return head + b"".join(parts)
    if isinstance(answer, list):
        return b"*%d\r\n" % len(answer) + b"".join(encode(part, protocol) for part in answer)
    return b"-ERR unknown command '%s'\r\n" % str(answer).encode()
