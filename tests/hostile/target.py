"""The broker that is attacked: a process of its own, what it says of itself, and connections to it."""

from __future__ import annotations

import re
import signal
import socket
import struct
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.broker.exposition_reader import read, value
from tests.broker.processes import ServeProcess
from tests.broker.requests import create, fetch, read_values
from tests.hostile.probe import Probe
from tests.waiting import in_time

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import Endpoint

PROBED = "the-probed-topic"
# A page of metrics is kept for a second.
PAGE_SECONDS = 1.1
START_SECONDS = 30.0
SAMPLE_SECONDS = 0.02
RECEIVE_BYTES = 1 << 18


class Exchanged(NamedTuple):
    """What became of frames that were sent on one connection."""

    answers: int
    largest_bytes: int
    end: str  # "", "closed" or "no answer"

    def __str__(self) -> str:
        text = f"{self.answers} answer(s)"
        if self.largest_bytes > 1 << 20:
            text += f" of up to {self.largest_bytes >> 20} MiB"
        return f"{text}, {self.end}" if self.end else text


class Target:
    """A broker, with a probe and a watch over its memory while it is attacked."""

    def __init__(self, folder: Path, patience_seconds: float) -> None:
        self.process = ServeProcess(folder)
        self.folder = folder
        self.patience_seconds = patience_seconds
        self.peak_bytes = 0
        self.acknowledged: list[bytes] = []
        self._next_record = 0
        self.probe: Probe | None = None
        self._sockets: list[socket.socket] = []
        self._is_watched = False
        self._asked_at = 0.0
        self.last_held_seconds = 0.0  # what is known of this process

    # The process.

    def start(self) -> None:
        """Starts it, and the probe; everything that was acknowledged before has to be there."""
        self.process.start("--metrics", "127.0.0.1:0")
        with RawConnection(self.process.address) as connection:
            if not self.acknowledged:
                create(connection, PROBED)
            else:
                self._check_values(connection)
        self.probe = Probe(self.process.address, PROBED, self._next_record)
        self._is_watched = True
        threading.Thread(target=self._watch, args=(self.process.pid,), daemon=True).start()
        if not self.probe.go_on(5, START_SECONDS):
            raise TimeoutError(self.probe.failure or "the probe is not served")
        self._asked_at = 0.0
        self.held_seconds()

    def _check_values(self, connection: RawConnection) -> None:
        # While a long log is replayed, the broker answers that it does not lead the partition yet.
        deadline = time.monotonic() + START_SECONDS
        while (error := fetch(connection, PROBED, 0).error_code) != ErrorCode.NONE:
            in_time(deadline, f"the probed topic is not served: {ErrorCode(error).name}")
            time.sleep(0.05)
        found = {value for value in read_values(connection, PROBED) if value is not None}
        missing = [value for value in self.acknowledged if value not in found]
        assert not missing, (
            f"{len(missing)} acknowledged records are missing, such as {missing[0]!r}"
        )

    def _watch(self, pid: int) -> None:
        while self._is_watched and self.process.pid == pid:
            with suppress(OSError, ValueError):
                self.peak_bytes = max(self.peak_bytes, self.process.resident_bytes)
            time.sleep(SAMPLE_SECONDS)

    def stop(self, seconds: float) -> float | None:
        """SIGTERM while attackers are connected: how long it took, None if it was ignored."""
        self._end_probe()
        began = time.monotonic()
        self.process.signal(signal.SIGTERM)
        while self.process.is_running:
            if time.monotonic() - began > seconds:
                return None
            time.sleep(0.01)
        took = time.monotonic() - began
        code = self.process.wait()
        assert code == 0, f"exit code {code}: {self.process.log[-2000:]}"
        return took

    def kill(self) -> None:
        """kill -9."""
        self._is_watched = False
        if self.process.is_running:
            self.process.kill()
        self._end_probe()

    def _end_probe(self) -> None:
        self._is_watched = False
        if self.probe is not None:
            self.probe.stop()
            self.acknowledged += self.probe.acknowledged
            self._next_record = self.probe.next_record
            self.probe = None

    # What it says of itself.

    @property
    def metrics_address(self) -> tuple[str, int]:
        found = re.findall(r"metrics at http://([\d.]+):(\d+)/metrics", self.process.log)
        host, port = found[-1]
        return host, int(port)

    def held_seconds(self) -> float | None:
        """The worst that the loop was held lately, by its own measure; None if it does not answer."""
        time.sleep(max(0.0, self._asked_at + PAGE_SECONDS - time.monotonic()))
        host, port = self.metrics_address
        try:
            with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=20) as answer:
                page = answer.read().decode()
        except OSError:
            return None
        self._asked_at = time.monotonic()
        self.last_held_seconds = value(read(page), "ottla_loop_held_seconds_max")
        return self.last_held_seconds

    # Connections.

    @property
    def _endpoint(self) -> tuple[str, int]:
        endpoint = Endpoint.parse(self.process.address)
        return endpoint.host, endpoint.port

    def connect(self) -> socket.socket:
        """A connection that stays until `close_all`."""
        made = socket.create_connection(self._endpoint, self.patience_seconds)
        self._sockets.append(made)
        return made

    def session(self) -> RawConnection:
        """One for what is asked in a decent way."""
        made = RawConnection(self.process.address, timeout_seconds=self.patience_seconds)
        self._sockets.append(made.socket)
        return made

    def close_all(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()

    def exchange(self, data: bytes | list[bytes], answers: int = 1) -> Exchanged:
        """Sends frames on a connection of their own, and reads until so many answers came."""
        connected = self.connect()
        pieces = data if isinstance(data, list) else [data]

        def send() -> None:
            with suppress(OSError):
                for piece in pieces:
                    connected.sendall(piece)

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        found = _read_answers(connected, answers, time.monotonic() + self.patience_seconds)
        if found.end == "no answer":
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        sending.join()
        return found


def _read_answers(connected: socket.socket, wanted: int, deadline: float) -> Exchanged:
    count = largest = 0
    ahead = bytearray()
    to_skip = 0
    try:
        while count < wanted:
            connected.settimeout(max(0.001, deadline - time.monotonic()))
            piece = connected.recv(RECEIVE_BYTES)
            if not piece:
                return Exchanged(count, largest, "closed")
            if to_skip > len(piece):
                to_skip -= len(piece)
                continue
            ahead += memoryview(piece)[to_skip:]
            if to_skip:
                count += 1
                to_skip = 0
            position = 0
            while len(ahead) - position >= 4:
                (size,) = struct.unpack_from(">i", ahead, position)
                largest = max(largest, size)
                if len(ahead) - position - 4 < size:
                    to_skip = size - (len(ahead) - position - 4)
                    position = len(ahead)
                    break
                position += 4 + size
                count += 1
            del ahead[:position]
    except TimeoutError:
        return Exchanged(count, largest, "no answer")
    except OSError:
        return Exchanged(count, largest, "closed")
    return Exchanged(count, largest, "")
