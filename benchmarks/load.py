"""A load generator that costs little: encoded requests go out in bursts, answers are only counted.

Answers have a known length, so that their end is found without reading them: Linux drops received
bytes uncopied when asked with MSG_TRUNC. Either the requests or the answers in flight are small enough
for the socket's buffers, so that a blocking send cannot wait for a peer that waits for us.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

from ottla.client.raw import RawConnection

RECEIVE_BYTES = 1 << 20
DRAIN_SECONDS = 30
# A timer fires this much late; the rest of a wait is spent asking.
SPIN_SECONDS = 0.0002


class Burst(NamedTuple):
    """Requests that are sent at once, and how long their answers are together."""

    frames: bytes
    requests: int
    answer_bytes: int


class Target(NamedTuple):
    """A broker, and the bursts that it is sent in turn."""

    address: str
    bursts: Sequence[Burst]


class Sent(NamedTuple):
    """What was sent and answered."""

    requests: int
    seconds: float


class _Stream:
    """One connection and the bursts on it that are not answered yet."""

    def __init__(self, address: str, bursts: Sequence[Burst]) -> None:
        self.connection = RawConnection(address)
        self.socket = self.connection.socket
        # Python's own timeout costs a system call more per send and receive than the kernel's.
        self.socket.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", DRAIN_SECONDS, 0))
        self.bursts = cycle(bursts)
        self.waiting: deque[int] = deque()
        self.received_bytes = 0
        self.requests = 0

    def send(self) -> None:
        burst = next(self.bursts)
        self.socket.sendall(burst.frames)
        self.waiting.append(burst.answer_bytes)
        self.requests += burst.requests

    def receive(self, buffer: bytearray) -> None:
        """Counts what has arrived."""
        count = self.socket.recv_into(buffer, 0, socket.MSG_TRUNC)
        if count == 0:
            raise ConnectionResetError("the broker closed the connection")
        self.received_bytes += count
        while self.waiting and self.received_bytes >= self.waiting[0]:
            self.received_bytes -= self.waiting.popleft()


def drive(
    targets: Sequence[Target],
    *,
    seconds: float,
    bursts_in_flight: int,
    connection_count: int = 1,
) -> Sent:
    """Keeps a number of bursts in flight on every connection; ends when all are answered.

    The connections are those of the targets in turn, and every target has one.
    """
    streams = [
        _Stream(*targets[number % len(targets)])
        for number in range(max(connection_count, len(targets)))
    ]
    by_descriptor = {stream.socket.fileno(): stream for stream in streams}
    poll = select.poll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    buffer = bytearray(RECEIVE_BYTES)
    started = time.perf_counter()
    end = started + seconds
    try:
        for stream in streams:
            for _ in range(bursts_in_flight):
                stream.send()
        open_count = len(streams)
        while open_count:
            ready = poll.poll(DRAIN_SECONDS * 1000)
            if not ready:
                raise TimeoutError(f"no answer within {DRAIN_SECONDS} s")
            sending = time.perf_counter() < end
            for descriptor, _ in ready:
                stream = by_descriptor[descriptor]
                stream.receive(buffer)
                while sending and len(stream.waiting) < bursts_in_flight:
                    stream.send()
                if not stream.waiting:
                    poll.unregister(descriptor)
                    open_count -= 1
        elapsed = time.perf_counter() - started
        return Sent(sum(stream.requests for stream in streams), elapsed)
    finally:
        for stream in streams:
            stream.connection.close()


def one_by_one(address: str, burst: Burst, *, seconds: float) -> list[float]:
    """Seconds until the answer, the next request being sent when the one before is answered."""
    buffer = bytearray(RECEIVE_BYTES)
    latencies = []
    stream = _Stream(address, [burst])
    end = time.perf_counter() + seconds
    try:
        while (sent := time.perf_counter()) < end:
            stream.send()
            while stream.waiting:
                stream.receive(buffer)
            latencies.append(time.perf_counter() - sent)
    finally:
        stream.connection.close()
    return latencies


def at_rate(address: str, burst: Burst, *, seconds: float, per_second: int) -> list[float]:
    """Seconds until the answer, counted from when the request was due, whatever came before.

    A stall of the broker therefore counts for every request that was due in it.
    """
    buffer = bytearray(RECEIVE_BYTES)
    stream = _Stream(address, [burst])
    count = int(seconds * per_second)
    latencies: list[float] = []
    sent = 0
    started = time.perf_counter()
    try:
        while len(latencies) < count:
            now = time.perf_counter()
            while sent < count and started + sent / per_second <= now:
                stream.send()
                sent += 1
            next_due = started + sent / per_second if sent < count else now + DRAIN_SECONDS
            wait = max(0.0, next_due - now - SPIN_SECONDS)
            if select.select([stream.socket], [], [], wait)[0]:
                stream.receive(buffer)
                now = time.perf_counter()
                answered = sent - len(stream.waiting)
                while len(latencies) < answered:
                    latencies.append(now - started - len(latencies) / per_second)
            elif sent == count and time.perf_counter() >= next_due:
                raise TimeoutError(f"no answer within {DRAIN_SECONDS} s")
    finally:
        stream.connection.close()
    return latencies
