"""Buffers that connections reuse: making a large one costs more than filling it."""

from __future__ import annotations

import mmap

from ottla.fresh_pages import fresh_pages

SMALLEST_SPARE_BYTES = 64 << 10
MAX_SPARE_BYTES = 8 << 20
# From here on, the memory of a buffer is taken when it is filled.
LARGE_BYTES = 4 << 20

Kept = bytearray | mmap.mmap


class Buffers:
    """A few spare buffers; one that was given back must not be read any more."""

    def __init__(self) -> None:
        self._spare: list[Kept] = []
        self._spare_bytes = 0

    def take(self, size_bytes: int) -> Kept:
        """A buffer of at least this size, with anything in it."""
        if size_bytes < SMALLEST_SPARE_BYTES:
            return bytearray(size_bytes)
        if size_bytes >= LARGE_BYTES:
            return self.take_spare(size_bytes) or fresh_pages(size_bytes)
        # Frames of one client are of similar sizes: rounded up, the buffer will do for the next one.
        return self.take_spare(size_bytes) or bytearray(1 << (size_bytes - 1).bit_length())

    def take_spare(self, size_bytes: int) -> Kept | None:
        """A buffer of at least this size if there is one to spare: it costs nothing."""
        for place, spare in enumerate(self._spare):
            if len(spare) >= size_bytes:
                del self._spare[place]
                self._spare_bytes -= len(spare)
                return spare
        return None

    def give_back(self, buffer: Kept) -> None:
        """Keeps a buffer for the next connection, within a limit."""
        if SMALLEST_SPARE_BYTES <= len(buffer) <= MAX_SPARE_BYTES - self._spare_bytes:
            self._spare.append(buffer)
            self._spare_bytes += len(buffer)
