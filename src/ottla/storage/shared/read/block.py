"""Consecutive batches of a partition in memory, with their places."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ottla.ports import Buffer, DamagedError, Extent
from ottla.records.batch import split_batches
from ottla.records.errors import CorruptRecordsError


class Block:
    """The batches between two offsets, in one buffer or several; it may grow at its end until it is sealed."""

    __slots__ = (
        "_chunk_starts",
        "_chunks",
        "_ends",
        "_last_offsets",
        "_timestamps_ms",
        "base_offset",
        "end_offset",
        "is_settled",
        "size_bytes",
    )

    def __init__(self, base_offset: int, end_offset: int) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.size_bytes = 0
        self.is_settled = True
        self._chunks: list[Buffer] = []
        self._chunk_starts: list[int] = []
        self._last_offsets = array("q")
        self._ends = array("q")
        self._timestamps_ms = array("q")

    def add(self, data: Buffer, extents: Sequence[Extent]) -> None:
        """Adds batches at the end; `data` is kept."""
        self._chunks.append(data)
        self._chunk_starts.append(self.size_bytes)
        position = self.size_bytes
        for _, last_offset, timestamp_ms, size_bytes in extents:
            position += size_bytes
            self._last_offsets.append(last_offset)
            self._timestamps_ms.append(timestamp_ms)
            self._ends.append(position)
        self.size_bytes = position
        self.end_offset = extents[-1].last_offset + 1

    @property
    def chunks(self) -> Sequence[Buffer]:
        return self._chunks

    def join(self) -> Buffer:
        """All batches in one buffer, which takes the place of the others."""
        if len(self._chunks) != 1:
            self._chunks = [b"".join(self._chunks)]
            self._chunk_starts = [0]
        return self._chunks[0]

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """As Log.read, of these batches."""
        first = bisect_left(self._last_offsets, offset)
        stop = bisect_left(self._last_offsets, end_offset)
        if first >= stop:
            return b""
        start = self._ends[first - 1] if first else 0
        fitting = bisect_right(self._ends, start + max_bytes)
        end = self._ends[max(first + 1, min(stop, fitting)) - 1]
        return self._bytes(start, end)

    def _bytes(self, start: int, end: int) -> Buffer:
        number = bisect_right(self._chunk_starts, start) - 1
        begin = self._chunk_starts[number]
        chunk = self._chunks[number]
        if end <= begin + len(chunk):
            return memoryview(chunk)[start - begin : end - begin]
        parts: list[Buffer] = []
        while start < end:
            begin = self._chunk_starts[number]
            chunk = self._chunks[number]
            parts.append(memoryview(chunk)[start - begin : end - begin])
            start = begin + len(chunk)
            number += 1
        return b"".join(parts)

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """The size of what a read without a limit would return."""
        first = bisect_left(self._last_offsets, offset)
        stop = bisect_left(self._last_offsets, end_offset)
        if first >= stop:
            return 0
        return self._ends[stop - 1] - (self._ends[first - 1] if first else 0)

    def forget(self) -> None:
        """Lets go of the batches; what was read of them stays valid."""
        self._chunks = []

    def next_last_offset(self, offset: int) -> int | None:
        """The last offset of the batch that a read from an offset begins with."""
        first = bisect_left(self._last_offsets, offset)
        return self._last_offsets[first] if first < len(self._last_offsets) else None

    def first_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        """The first batch at or after an offset whose max timestamp is at least `timestamp_ms`."""
        times = self._timestamps_ms
        for number in range(bisect_left(self._last_offsets, offset), len(times)):
            if times[number] >= timestamp_ms:
                return self._bytes(self._ends[number - 1] if number else 0, self._ends[number])
        return None

    def max_timestamp_ms(self, offset: int) -> int | None:
        """The largest timestamp of the batches at or after an offset."""
        first = bisect_left(self._last_offsets, offset)
        return max(self._timestamps_ms[first:], default=None)


def block_of(data: Buffer, base_offset: int, end_offset: int) -> Block:
    """Stored batches; DamagedError if they are malformed, or do not lie between these offsets."""
    made = Block(base_offset, end_offset)
    try:
        extents = [
            Extent(header.base_offset, header.last_offset, header.max_timestamp, header.size_bytes)
            for _, header in split_batches(data)
        ]
    except CorruptRecordsError as error:
        raise DamagedError(
            f"the batches between offsets {base_offset} and {end_offset} are damaged: {error}"
        ) from error
    previous = base_offset - 1
    for extent in extents:
        if extent.base_offset <= previous or extent.last_offset < extent.base_offset:
            raise DamagedError(f"the batches behind offset {previous} are out of order")
        previous = extent.last_offset
    if previous >= end_offset:
        raise DamagedError(f"a batch reaches beyond offset {end_offset}, where its run ends")
    if extents:
        made.add(data, extents)
        made.end_offset = end_offset
    return made
