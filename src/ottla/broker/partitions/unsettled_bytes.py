"""The bytes that a node has taken from producers and that are not durable yet, and the producers that wait for room.

An engine that is slow, or cannot be reached, keeps what was appended in memory. Above the bound, a connection whose
next request is a Produce request waits with it, and is not read: further records stay with the clients. Connections
that ask for other things go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

# Enough to keep a store busy: 4 objects of 4 MiB that are on their way take a tenth of a second, one connection to
# PostgreSQL takes this much in a second. More would only wait for longer, and would need more of a small machine.
BOUND_BYTES: Final = 64 << 20


class WaitingProducer(Protocol):
    """A connection with a Produce request that waits for room."""

    def go_on_producing(self) -> None:
        """It may append one request, if it still wants to."""
        ...


class UnsettledBytes:
    """Counts them; producers that wait go on one after the other, in the order in which they came."""

    __slots__ = ("_admitted", "_bound_bytes", "_serves_soon", "_waiting", "holds_back", "total")

    def __init__(self) -> None:
        self.total = 0
        self.holds_back = False
        """Whether producers have to ask `must_wait` now."""
        self._bound_bytes = BOUND_BYTES
        self._waiting: dict[WaitingProducer, None] = {}
        self._admitted: WaitingProducer | None = None
        self._serves_soon = False

    @property
    def waiting_count(self) -> int:
        """How many connections wait."""
        return len(self._waiting)

    def add(self, size_bytes: int) -> None:
        self.total += size_bytes
        if self.total >= self._bound_bytes:
            self.holds_back = True

    def remove(self, size_bytes: int) -> None:
        self.total -= size_bytes
        if self.holds_back:
            self._go_on()

    @contextmanager
    def holding(self, size_bytes: int) -> Iterator[None]:
        """Counts bytes of a request that waits before it appends them."""
        self.add(size_bytes)
        try:
            yield
        finally:
            self.remove(size_bytes)

    def must_wait(self, producer: WaitingProducer) -> bool:
        """Whether a producer's request has to wait; `go_on_producing` is called when it may be handled."""
        if producer is self._admitted:
            self._admitted = None
            return False
        self._waiting[producer] = None
        return True

    def forget(self, producer: WaitingProducer) -> None:
        """The connection has gone."""
        if self._waiting.pop(producer, producer) is None and self.holds_back:
            self._go_on()

    def _go_on(self) -> None:
        if self.total >= self._bound_bytes:
            return
        if not self._waiting:
            self.holds_back = False
        elif not self._serves_soon:
            self._serves_soon = True
            asyncio.get_running_loop().call_soon(self._serve_first)

    def _serve_first(self) -> None:
        """Lets the first one append a request; there may be no room for another one after it."""
        self._serves_soon = False
        if self._waiting and self.total < self._bound_bytes:
            first = self._admitted = next(iter(self._waiting))
            del self._waiting[first]
            first.go_on_producing()
            self._admitted = None
        self._go_on()
