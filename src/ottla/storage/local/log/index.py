"""The two sparse indexes of a segment, in the form they have in their files.

The offset index (.index) has entries of 8 bytes: the last offset of a batch relative to the
segment's base, and the batch's position. The time index (.timeindex) has entries of 12 bytes: the
largest timestamp so far, and the last offset of the first batch that has it, relative too. Both
are big-endian and sorted.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import Final, NamedTuple

from ottla.storage.local.folder import checkpoint_files, layout

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
OFFSET_ENTRY_BYTES: Final = OFFSET_ENTRY.size
TIME_ENTRY_BYTES: Final = TIME_ENTRY.size

NO_TIMESTAMP: Final = -1

# Larger index files are mapped instead of read.
_MAP_FROM_BYTES: Final = 128 * 1024

Entries = bytearray | bytes | mmap.mmap

_unpack_offset_entry = OFFSET_ENTRY.unpack_from
_unpack_time_entry = TIME_ENTRY.unpack_from


class TimePoint(NamedTuple):
    """A timestamp and the last offset of the first batch that has it as its largest."""

    timestamp_ms: int
    offset: int


class DamagedIndexError(Exception):
    """An index file does not fit its segment; it has to be rebuilt."""


class EmptyIndexError(DamagedIndexError):
    """The index has no entry, which is normal for a small active segment."""


def _slots_not_above(entries: Entries, field: int, value: int) -> int:
    """The number of offset entries with a field (0 offset, 1 position) that is not above a value."""
    low, high = 0, len(entries) // OFFSET_ENTRY_BYTES
    while low < high:
        middle = (low + high) >> 1
        if _unpack_offset_entry(entries, middle * OFFSET_ENTRY_BYTES)[field] <= value:
            low = middle + 1
        else:
            high = middle
    return low


class SegmentIndex:
    """Both indexes of a segment; those of the active segment grow in memory."""

    __slots__ = (
        "base_offset",
        "bytes_since_entry",
        "has_files",
        "latest",
        "offset_bytes_written",
        "offset_entries",
        "time_bytes_written",
        "time_entries",
    )

    def __init__(self, base_offset: int, offset_entries: Entries, time_entries: Entries) -> None:
        self.base_offset = base_offset
        self.offset_entries = offset_entries
        self.time_entries = time_entries
        self.bytes_since_entry = 0
        self.latest = self.last_time_entry()
        self.has_files = False
        self.offset_bytes_written = 0
        self.time_bytes_written = 0

    @property
    def is_in_files(self) -> bool:
        """Whether `write` has nothing to do."""
        return (
            self.has_files
            and self.offset_bytes_written == len(self.offset_entries)
            and self.time_bytes_written == len(self.time_entries)
        )

    def last_time_entry(self) -> TimePoint:
        """The last entry of the time index."""
        if not len(self.time_entries):
            return TimePoint(NO_TIMESTAMP, self.base_offset)
        timestamp_ms, relative = _unpack_time_entry(
            self.time_entries, len(self.time_entries) - TIME_ENTRY_BYTES
        )
        return TimePoint(timestamp_ms, self.base_offset + relative)

    def last_offset_entry(self) -> tuple[int, int] | None:
        """Offset and position of the last entry of the offset index."""
        if not len(self.offset_entries):
            return None
        relative, position = _unpack_offset_entry(
            self.offset_entries, len(self.offset_entries) - OFFSET_ENTRY_BYTES
        )
        return self.base_offset + relative, position

    def add(
        self,
        last_offset: int,
        position: int,
        size_bytes: int,
        timestamp_ms: int,
        interval_bytes: int,
    ) -> None:
        """Counts a batch; it gets an entry if there are enough bytes since the last entry."""
        if timestamp_ms > self.latest.timestamp_ms:
            self.latest = TimePoint(timestamp_ms, last_offset)
        if self.bytes_since_entry > interval_bytes:
            self.add_entry(last_offset, position)
        self.bytes_since_entry += size_bytes

    def add_entry(self, last_offset: int, position: int) -> None:
        """Adds an entry to both indexes."""
        assert isinstance(self.offset_entries, bytearray)
        self.offset_entries += OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
        self.add_time_entry()
        self.bytes_since_entry = 0

    def add_time_entry(self) -> None:
        """Adds the largest timestamp so far to the time index unless it is there."""
        if self.latest.timestamp_ms > self.last_time_entry().timestamp_ms:
            assert isinstance(self.time_entries, bytearray)
            self.time_entries += TIME_ENTRY.pack(
                self.latest.timestamp_ms, self.latest.offset - self.base_offset
            )

    def is_full(self, limit_bytes: int) -> bool:
        """Whether there is no room left; the time index reserves one entry for the segment's end."""
        return (
            len(self.offset_entries) // OFFSET_ENTRY_BYTES >= limit_bytes // OFFSET_ENTRY_BYTES
            or len(self.time_entries) // TIME_ENTRY_BYTES >= limit_bytes // TIME_ENTRY_BYTES - 1
        )

    def floor(self, offset: int) -> int:
        """A position at or before the batch that contains an offset."""
        entries = self.offset_entries
        low, high = 0, len(entries) // OFFSET_ENTRY_BYTES
        if not high:
            return 0
        relative = offset - self.base_offset
        while low < high:
            middle = (low + high) >> 1
            if _unpack_offset_entry(entries, middle * OFFSET_ENTRY_BYTES)[0] <= relative:
                low = middle + 1
            else:
                high = middle
        return _unpack_offset_entry(entries, (low - 1) * OFFSET_ENTRY_BYTES)[1] if low else 0

    def last_position(self, limit: int, end_offset: int) -> int:
        """The last indexed position up to `limit` whose preceding batches are below an offset."""
        entries = self.offset_entries
        slots = min(
            _slots_not_above(entries, 1, limit),
            _slots_not_above(entries, 0, end_offset - self.base_offset),
        )
        return _unpack_offset_entry(entries, (slots - 1) * OFFSET_ENTRY_BYTES)[1] if slots else 0

    def floor_time(self, timestamp_ms: int) -> TimePoint | None:
        """The last entry not above a timestamp: every batch before its own has a smaller one."""
        entries = self.time_entries
        low, high = 0, len(entries) // TIME_ENTRY_BYTES
        while low < high:
            middle = (low + high) >> 1
            if _unpack_time_entry(entries, middle * TIME_ENTRY_BYTES)[0] <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None
        found_ms, relative = _unpack_time_entry(entries, (low - 1) * TIME_ENTRY_BYTES)
        return TimePoint(found_ms, self.base_offset + relative)

    def cut(self, position: int, end_offset: int) -> None:
        """Forgets the entries of batches from a position on, where `end_offset` would come next."""
        offset_slots = _slots_not_above(self.offset_entries, 1, position - 1)
        self.offset_entries = bytearray(self.offset_entries[: offset_slots * OFFSET_ENTRY_BYTES])
        time_slots = len(self.time_entries) // TIME_ENTRY_BYTES
        while time_slots:
            relative = _unpack_time_entry(self.time_entries, (time_slots - 1) * TIME_ENTRY_BYTES)[1]
            if self.base_offset + relative < end_offset:
                break
            time_slots -= 1
        self.time_entries = bytearray(self.time_entries[: time_slots * TIME_ENTRY_BYTES])
        self.latest = self.last_time_entry()
        self.offset_bytes_written = self.time_bytes_written = 0
        self.has_files = False

    def check_bounds(self, size_bytes: int) -> None:
        """DamagedIndexError unless the last entries fit the segment; cheap for files of any size."""
        last = self.last_offset_entry()
        if last is not None and not (self.base_offset <= last[0] and 0 < last[1] < size_bytes):
            raise DamagedIndexError(f"the offset index ends with {last}")
        timestamp_ms, offset = self.last_time_entry()
        if len(self.time_entries) and (timestamp_ms <= NO_TIMESTAMP or offset < self.base_offset):
            raise DamagedIndexError(f"the time index ends with offset {offset} at {timestamp_ms}")

    def check_order(self) -> None:
        """DamagedIndexError unless every entry is larger than the one before."""
        last_relative, last_position = -1, 0
        for relative, position in OFFSET_ENTRY.iter_unpack(self.offset_entries):
            if relative <= last_relative or position <= last_position:
                raise DamagedIndexError("the offset index is out of order")
            last_relative, last_position = relative, position
        last_relative, last_timestamp_ms = -1, NO_TIMESTAMP
        for timestamp_ms, relative in TIME_ENTRY.iter_unpack(self.time_entries):
            if relative <= last_relative or timestamp_ms <= last_timestamp_ms:
                raise DamagedIndexError("the time index is out of order")
            last_relative, last_timestamp_ms = relative, timestamp_ms

    def write(self, stem: str) -> None:
        """Writes the entries that are not in the files yet; `stem` is their path without a suffix."""
        if self.is_in_files:
            return
        self.offset_bytes_written = _write_rest(
            stem + layout.INDEX_SUFFIX, self.offset_entries, self.offset_bytes_written
        )
        self.time_bytes_written = _write_rest(
            stem + layout.TIME_INDEX_SUFFIX, self.time_entries, self.time_bytes_written
        )
        self.has_files = True


def empty_index(base_offset: int) -> SegmentIndex:
    """The indexes of a new segment."""
    return SegmentIndex(base_offset, bytearray(), bytearray())


def _write_rest(path: str, entries: Entries, start: int) -> int:
    """Writes the entries of an index file from `start` on."""
    if start == len(entries) and start:
        return start
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(fd, start)
        os.lseek(fd, start, os.SEEK_SET)
        checkpoint_files.write_all(fd, entries[start:])
    finally:
        os.close(fd)
    return len(entries)


def _read_entries(path: str) -> bytes | mmap.mmap:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(fd).st_size
        if size_bytes >= _MAP_FROM_BYTES:
            return mmap.mmap(fd, size_bytes, access=mmap.ACCESS_READ)
        return os.pread(fd, size_bytes, 0)
    finally:
        os.close(fd)


def read_index(stem: str, base_offset: int, size_bytes: int) -> SegmentIndex:
    """The indexes of a sealed segment from their files, DamagedIndexError if they are wrong."""
    index = read_timeless_index(stem, base_offset, size_bytes)
    if size_bytes and not len(index.time_entries):
        # The last entry of a sealed segment is its largest timestamp, if it has any.
        raise EmptyIndexError("the time index is empty")
    return index


def read_timeless_index(stem: str, base_offset: int, size_bytes: int) -> SegmentIndex:
    """As `read_index`, where no batch has a timestamp, so that the time index may be empty."""
    try:
        offset_entries = _read_entries(stem + layout.INDEX_SUFFIX)
        time_entries = _read_entries(stem + layout.TIME_INDEX_SUFFIX)
    except OSError as error:
        raise DamagedIndexError(str(error)) from error
    if len(offset_entries) % OFFSET_ENTRY_BYTES or len(time_entries) % TIME_ENTRY_BYTES:
        raise DamagedIndexError("the size is no multiple of the entry size")
    index = SegmentIndex(base_offset, offset_entries, time_entries)
    index.check_bounds(size_bytes)
    return index


def read_active_index(stem: str, base_offset: int, size_bytes: int) -> SegmentIndex:
    """The indexes of a segment that will grow."""
    found = read_index(stem, base_offset, size_bytes)
    index = SegmentIndex(
        base_offset, bytearray(found.offset_entries), bytearray(found.time_entries)
    )
    index.offset_bytes_written = len(index.offset_entries)
    index.time_bytes_written = len(index.time_entries)
    index.has_files = True
    return index
