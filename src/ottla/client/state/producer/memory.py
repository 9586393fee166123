"""The memory that a producer may use for batches (buffer.memory), and the reservations that wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Reservation:
    """A part of the memory, granted at once or later, first come, first served."""

    __slots__ = ("granted", "is_over", "size_bytes", "wake")

    def __init__(self, size_bytes: int, wake: Callable[[], object]) -> None:
        self.size_bytes = size_bytes
        self.wake = wake
        """Called when it is granted later; a caller that waits sets it first, and then looks at `granted`."""
        self.granted = False
        self.is_over = False
        """Whether it was given up, or is that of a batch, whose end frees the memory."""


class Memory:
    """Counts `buffer.memory`; the accumulator's lock protects it."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.available_bytes = total_bytes
        self._waiting: deque[Reservation] = deque()

    @property
    def waiting_count(self) -> int:
        """How many reservations wait."""
        return len(self._waiting)

    def take(self, size_bytes: int) -> bool:
        """Take memory if there is enough and no reservation waits."""
        if self._waiting or size_bytes > self.available_bytes:
            return False
        self.available_bytes -= size_bytes
        return True

    def ask_for(self, reservation: Reservation) -> None:
        """Take memory now, or queue up."""
        if self.take(reservation.size_bytes):
            reservation.granted = True
        else:
            self._waiting.append(reservation)

    def cancel(self, reservation: Reservation) -> None:
        """Give a reservation up, unless it is over; memory that was granted is free again."""
        if reservation.is_over:
            return
        reservation.is_over = True
        if reservation.granted:
            self.release(reservation.size_bytes)
        elif reservation in self._waiting:
            self._waiting.remove(reservation)
            self._grant()

    def release(self, size_bytes: int) -> None:
        """Free memory, and grant the reservations that wait."""
        self.available_bytes += size_bytes
        assert self.available_bytes <= self.total_bytes
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self._waiting[0].size_bytes <= self.available_bytes:
            reservation = self._waiting.popleft()
            self.available_bytes -= reservation.size_bytes
            reservation.granted = True
            reservation.wake()
