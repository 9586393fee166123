"""Buffers that connections reuse: making a large one costs more than filling it."""

from __future__ import annotations

import mmap

from ottla.fresh_pages import fresh_pages

SMALLEST_SPARE_BYTES = 64 << 10
MAX_SPARE_BYTES = 8 << 20
# From this size on, the system provides the memory of a buffer as it is filled.
LARGE_BYTES = 4 << 20

Buffer = bytearray | mmap.mmap


class Buffers:
    """A few spare buffers; a connection that gave one back must not use it any more."""

    def __init__(self) -> None:
        self._spare: list[Buffer] = []
        self._spare_bytes = 0

    def take(self, size_bytes: int) -> Buffer:
        """A buffer of at least this size, with arbitrary content."""
        if size_bytes < SMALLEST_SPARE_BYTES:
            return bytearray(size_bytes)
        if size_bytes >= LARGE_BYTES:
            return self.take_spare(size_bytes) or fresh_pages(size_bytes)
        # A client's frames have similar sizes: rounded up, the buffer fits the next one, too.
        return self.take_spare(size_bytes) or bytearray(1 << (size_bytes - 1).bit_length())

    def take_spare(self, size_bytes: int) -> Buffer | None:
        """A spare buffer of at least this size, if there is one."""
        for place, spare in enumerate(self._spare):
            if len(spare) >= size_bytes:
                del self._spare[place]
                self._spare_bytes -= len(spare)
                return spare
        return None

    def give_back(self, buffer: Buffer) -> None:
        """Keeps a buffer for the next connection, within a limit."""
        if SMALLEST_SPARE_BYTES <= len(buffer) <= MAX_SPARE_BYTES - self._spare_bytes:
            self._spare.append(buffer)
            self._spare_bytes += len(buffer)
