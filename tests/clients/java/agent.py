"""A Java process that runs Apache Kafka's own client and does what it is told over a socket."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import maven
from tests.clients.driver import READ_SECONDS, RefusedError

SOURCE = Path(__file__).with_name("ClientAgent.java")

_INT32 = struct.Struct(">i")


class Agent:
    """The process; `connect` opens a session in it, with a thread of its own."""

    def __init__(self, port: int) -> None:
        self.port = port

    def connect(self) -> AgentConnection:
        return AgentConnection(socket.create_connection(("127.0.0.1", self.port), READ_SECONDS))


class AgentConnection:
    """Commands and answers are lists of byte strings, where None is null."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        # Longer than any command takes, so that it is the command that fails.
        self.socket.settimeout(3 * READ_SECONDS)
        self.stream = connection.makefile("rb")

    def call(self, *words: str | int | bytes | None) -> list[bytes | None]:
        """Runs a command; an exception of the client is raised here."""
        parts = [_INT32.pack(len(words))]
        for word in words:
            if word is None:
                parts.append(_INT32.pack(-1))
            else:
                data = word if isinstance(word, bytes) else str(word).encode()
                parts += [_INT32.pack(len(data)), data]
        self.socket.sendall(b"".join(parts))
        answer = [self._word() for _ in range(self._int32())]
        if answer[0] == b"error":
            raise RefusedError(int(answer[1] or b"-1"), (answer[2] or b"").decode())
        return answer[1:]

    def _int32(self) -> int:
        data = self.stream.read(_INT32.size)
        if len(data) < _INT32.size:
            raise ConnectionResetError("the Java process closed the connection")
        return int(_INT32.unpack(data)[0])

    def _word(self) -> bytes | None:
        size_bytes = self._int32()
        return None if size_bytes < 0 else self.stream.read(size_bytes)

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


@contextmanager
def start_agent(shared_folder: Path) -> Iterator[Agent]:
    """Downloads what is missing and starts the process; skips where that cannot be."""
    if shutil.which("javac") is None:
        pytest.skip("the Java client needs javac, which is not installed")
    jars = maven.kafka_client(shared_folder)
    parsers = maven.token_parsers(shared_folder)
    process = subprocess.Popen(
        # One compiler thread and the plain collector: it shares two cores with the tests.
        [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            *("-cp", f"{jars}/*:{parsers}/*", str(SOURCE)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, "the Java process ended before it began"
        yield Agent(int(line))
    finally:
        # It ends when its standard input does, also if this process is killed.
        process.stdin.close()
        try:
            process.wait(READ_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
