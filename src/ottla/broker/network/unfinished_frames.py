"""The memory of frames that are incomplete, or wait to be decoded: all connections of a node share a limit.

A frame that needs more waits for others to be finished, and its client's bytes stay on the client's side; small frames
go first. The oldest frame never waits, so that one can always be finished. While frames wait, a frame that makes no
progress, or takes too long, costs its connection.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import Final, Protocol

# What a connection may keep without being counted.
UNCOUNTED_BYTES: Final = 64 << 10
# The limit, unless two of the largest frames need more.
LEAST_BOUND_BYTES: Final = 256 << 20
# While others wait for memory: how long a frame may take in all, and from one byte to the next.
PATIENCE_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 0.25
# So many connections are closed at a time, because that takes time as well.
MAX_GIVEN_UP: Final = 100


class Receiver(Protocol):
    """A connection with an unfinished frame."""

    @property
    def received_bytes(self) -> int:
        """How much of the frame is here."""
        ...

    @property
    def waits_for_broker(self) -> bool:
        """Whether the frame waits for the broker and not for its client."""
        ...

    def go_on_receiving(self) -> None:
        """There is room for more of the frame."""
        ...

    def give_up_receiving(self, reason: str) -> None: ...


class _Held:
    """How much memory an unfinished frame holds, and its progress."""

    __slots__ = ("began", "progressed", "received_bytes", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        self.began = self.progressed = monotonic()
        self.received_bytes = -1


class UnfinishedFrames:
    """How much each connection holds, the oldest first, and how much each waits for."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._bound_bytes = max(LEAST_BOUND_BYTES, 2 * max_frame_bytes)
        self._held: dict[Receiver, _Held] = {}
        self._waiting: dict[Receiver, int] = {}
        # Waiting connections, the smallest frame first; an entry without the same size in `_waiting` is outdated.
        self._line: list[tuple[int, int, Receiver]] = []
        self._numbers = count()
        self._total_bytes = 0  # with whole frames
        self._is_serving = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def total_bytes(self) -> int:
        return self._total_bytes

    @property
    def is_short(self) -> bool:
        """Whether connections should take little at a time."""
        return bool(self._waiting)

    def claim(self, receiver: Receiver, size_bytes: int) -> bool:
        """Whether a connection may hold so much now; if not, `go_on_receiving` is called when it may."""
        if size_bytes <= UNCOUNTED_BYTES:
            self.release(receiver)
            return True
        if self._fits(receiver, size_bytes):
            self._take(receiver, size_bytes)
            return True
        self._waiting[receiver] = size_bytes
        heapq.heappush(self._line, (size_bytes, next(self._numbers), receiver))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)
        return False

    def release(self, receiver: Receiver) -> None:
        """The frame is whole, or given up."""
        self._waiting.pop(receiver, None)
        held = self._held.pop(receiver, None)
        if held is None:
            return
        self._total_bytes -= held.size_bytes
        if not self._is_serving:
            self._serve_waiting()

    @contextmanager
    def whole_frame(self, size_bytes: int) -> Iterator[None]:
        """Counts a complete frame that is decoded in slices."""
        self._total_bytes += size_bytes
        try:
            yield
        finally:
            self._total_bytes -= size_bytes
            if not self._is_serving:
                self._serve_waiting()

    def _fits(self, receiver: Receiver, size_bytes: int) -> bool:
        held = self._held.get(receiver)
        others = self._total_bytes - (0 if held is None else held.size_bytes)
        return others + size_bytes <= self._bound_bytes or receiver is self._oldest(receiver)

    def _oldest(self, otherwise: Receiver) -> Receiver:
        return next(iter(self._held), otherwise)

    def _take(self, receiver: Receiver, size_bytes: int) -> None:
        held = self._held.get(receiver)
        if held is None:
            held = self._held[receiver] = _Held()
        self._total_bytes += size_bytes - held.size_bytes
        held.size_bytes = size_bytes

    def _serve_waiting(self) -> None:
        """Gives free memory to waiting connections; some of them may release theirs in turn."""
        self._is_serving = True
        try:
            while self._waiting:
                receiver = self._next_waiting()
                size_bytes = self._waiting[receiver]
                if not self._fits(receiver, size_bytes):
                    break
                del self._waiting[receiver]
                self._take(receiver, size_bytes)
                # It waited for memory, not for its client.
                held = self._held[receiver]
                held.began = held.progressed = monotonic()
                receiver.go_on_receiving()
        finally:
            self._is_serving = False

    def _next_waiting(self) -> Receiver:
        oldest = next(iter(self._held), None)
        if oldest is not None and oldest in self._waiting:
            return oldest
        while True:
            size_bytes, _, receiver = self._line[0]
            if self._waiting.get(receiver) == size_bytes:
                return receiver
            heapq.heappop(self._line)

    def _check(self) -> None:
        """Closes connections whose frames make no progress while others wait."""
        self._timer = None
        now = monotonic()
        late = []
        for receiver, held in self._held.items():
            if receiver in self._waiting:
                continue
            if receiver.waits_for_broker or receiver.received_bytes != held.received_bytes:
                held.received_bytes = receiver.received_bytes
                held.progressed = now
            if now - held.progressed >= IDLE_SECONDS or now - held.began >= PATIENCE_SECONDS:
                late.append(receiver)
        for receiver in late[:MAX_GIVEN_UP]:
            if not self._waiting:
                break
            receiver.give_up_receiving("a frame did not get on while others waited for its memory")
            self.release(receiver)
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)
        else:
            self._line.clear()
