"""The memory of frames that are incomplete, or wait to be decoded: all connections of a node share a limit.

A frame that needs more memory than is left waits until other frames are finished; meanwhile its connection does not
read. Small frames go first. The oldest frame never waits, so that one frame can always be finished. While frames wait,
a connection whose frame makes no progress, or takes too long, is closed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import Final, Protocol

# The buffer of one connection does not count up to this size.
UNCOUNTED_BYTES: Final = 64 << 10
# The limit, unless two of the largest frames need more.
LEAST_BOUND_BYTES: Final = 256 << 20
# While connections wait for memory: how long a frame may take in all, and how long without a new byte.
PATIENCE_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 0.25
# The most connections that one check closes, because closing takes time, too.
MAX_GIVEN_UP: Final = 100


class Receiver(Protocol):
    """A connection with an unfinished frame."""

    @property
    def received_bytes(self) -> int:
        """The number of bytes of the frame that have arrived."""
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
    """The memory and the progress of an unfinished frame."""

    __slots__ = ("began", "progressed", "received_bytes", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        self.began = self.progressed = monotonic()
        self.received_bytes = -1


class UnfinishedFrames:
    """The memory that each connection holds, the oldest first, and the memory that each waits for."""

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
        """Whether connections wait for memory: others should then receive little at a time."""
        return bool(self._waiting)

    def claim(self, receiver: Receiver, size_bytes: int) -> bool:
        """Whether a connection may hold `size_bytes` now; if not, `go_on_receiving` is called when it may."""
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
        """The frame is complete, or its connection is lost."""
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
        """Gives free memory to waiting connections; these may release their own in turn."""
        self._is_serving = True
        try:
            while self._waiting:
                receiver = self._next_waiting()
                size_bytes = self._waiting[receiver]
                if not self._fits(receiver, size_bytes):
                    break
                del self._waiting[receiver]
                self._take(receiver, size_bytes)
                # The time in which it waited for memory does not count.
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
        """Closes connections whose frames make no progress while other connections wait."""
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
