"""One segment of a partition's log: a file of batches back to back, and its indexes."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
from collections.abc import Callable, Sequence
from typing import Final

from ottla.events import EventLog
from ottla.ports import Buffer, DamagedError, Extent, StorageError
from ottla.storage.local.folder import layout
from ottla.storage.local.folder.open_files import OpenFiles
from ottla.storage.local.log.index import (
    NO_TIMESTAMP,
    DamagedIndexError,
    EmptyIndexError,
    SegmentIndex,
    TimePoint,
    read_index,
    read_timeless_index,
)
from ottla.storage.local.log.reserved_space import (
    RESERVE_FROM_BYTES,
    RESERVED_BYTES,
    give_back,
    give_back_if_left,
    reserve,
)
from ottla.storage.local.recovery.scan import READ_AT_ONCE_BYTES

logger = EventLog(__name__)

# The active segment is mapped again when it has grown by this much; pread serves the bytes that are not mapped.
REMAP_BYTES: Final = 1024 * 1024
_WINDOW_BYTES: Final = 16 * 1024
_NEVER: Final = 2**63 - 1

_peek = layout.BATCH_PEEK.unpack_from
_peek_times = layout.BATCH_TIMES.unpack_from
_PREFIX: Final = layout.BATCH_PREFIX_BYTES
_HEADER: Final = layout.BATCH_HEADER_BYTES
_MIN_LENGTH: Final = layout.MIN_BATCH_LENGTH

# Builds the indexes of a segment from its file.
IndexBuilder = Callable[[str, int], SegmentIndex]


class BrokenSegmentError(StorageError):
    """A failed write could not be undone: the content of the file is unknown."""


class IndexLostError(StorageError):
    """The index of a large segment has to be rebuilt, which the next claim does on a thread."""


class Segment:
    """The last segment of a log is active: it grows, its indexes in memory; others are sealed."""

    __slots__ = (
        "_build_index",
        "_fd",
        "_files",
        "_has_reserved",
        "_map",
        "_mapped_bytes",
        "_space_end",
        "_view",
        "base_offset",
        "created_ms",
        "end_offset",
        "first_timestamp_ms",
        "index",
        "jitter_ms",
        "max_time",
        "sealed",
        "size_bytes",
        "stem",
        "synced_bytes",
        "used",
    )

    def __init__(
        self,
        folder: str,
        base_offset: int,
        end_offset: int,
        size_bytes: int,
        files: OpenFiles,
        build: IndexBuilder,
    ) -> None:
        self.stem = os.path.join(folder, layout.offset_file_name(base_offset, ""))
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.size_bytes = size_bytes
        self.synced_bytes = size_bytes
        self.sealed = True
        self.index: SegmentIndex | None = None
        self.max_time: TimePoint | None = None
        self.first_timestamp_ms: int | None = None
        self.created_ms = 0  # of the monotonic clock
        self.jitter_ms = 0
        self.used = False
        self._files = files
        self._build_index = build
        self._fd = -1
        self._map: mmap.mmap | None = None
        self._view: memoryview = memoryview(b"")
        self._mapped_bytes = 0
        self._space_end = RESERVE_FROM_BYTES  # a write behind it reserves space first
        self._has_reserved = False

    @property
    def path(self) -> str:
        return self.stem + layout.LOG_SUFFIX

    # -- writing

    def append(self, data: Buffer, extents: Sequence[Extent], interval_bytes: int) -> None:
        """Writes batches at the end; after an OSError the file is as before."""
        fd = self._fd
        if fd < 0:
            fd = self._open()
        self.used = True
        position = self.size_bytes
        size_bytes = len(data)
        if position + size_bytes > self._space_end:
            self._reserve_space(fd, position + size_bytes)
        try:
            written = os.pwrite(fd, data, position)
            while written != size_bytes:
                written += os.pwrite(fd, memoryview(data)[written:], position + written)
        except OSError as error:
            self._undo_write(fd, position, error)
            raise
        index = self.index
        assert index is not None
        if not position:
            self.first_timestamp_ms = extents[0].max_timestamp_ms
        if len(extents) == 1:
            _, last_offset, timestamp_ms, _ = extents[0]
            if timestamp_ms > index.latest[0]:
                index.latest = TimePoint(timestamp_ms, last_offset)
            if index.bytes_since_entry > interval_bytes:
                index.add_entry(last_offset, position)
            index.bytes_since_entry += size_bytes
        else:
            for _, last_offset, timestamp_ms, batch_bytes in extents:
                index.add(last_offset, position, batch_bytes, timestamp_ms, interval_bytes)
                position += batch_bytes
        self.size_bytes += size_bytes
        self.end_offset = last_offset + 1

    def _reserve_space(self, fd: int, end: int) -> None:
        """Reserves disk space for a write that ends there, and for the next ones."""
        size_bytes = self.size_bytes
        end += min(RESERVED_BYTES, end)
        self._has_reserved = reserve(fd, size_bytes, end - size_bytes)
        self._space_end = end if self._has_reserved else _NEVER

    def give_space_back(self) -> None:
        """Frees disk space that was reserved and not needed."""
        if self._has_reserved and self._fd >= 0:
            give_back(self._fd, self.size_bytes)
        self._has_reserved = False
        self._space_end = max(RESERVE_FROM_BYTES, self.size_bytes)

    def _undo_write(self, fd: int, size_bytes: int, cause: OSError) -> None:
        """Cuts off the bytes of a failed write, and with them the reserved space."""
        self._has_reserved = False
        self._space_end = _NEVER
        try:
            os.ftruncate(fd, size_bytes)
        except OSError as error:
            raise BrokenSegmentError(
                f"cannot take back a failed write to {self.path}: {error}"
            ) from cause

    def seal(self) -> None:
        """Completes the index files; no append follows."""
        self.complete_index()
        assert self.index is not None
        self.max_time = self.index.latest
        self.sealed = True

    def write_index(self) -> None:
        """Brings the index files of the active segment up to date."""
        assert self.index is not None
        self.index.write(self.stem)

    def complete_index(self) -> None:
        """As `write_index`, with the largest timestamp as the last entry."""
        assert self.index is not None
        self.index.add_time_entry()
        self.index.write(self.stem)

    # -- files

    def _open(self) -> int:
        """The file, opened on demand: also for writing, unless the segment is sealed."""
        if self._fd < 0:
            mode = os.O_RDONLY if self.sealed else os.O_RDWR
            if self._map is None:
                self._files.opened(self)
            self._fd = os.open(self.path, mode | os.O_CLOEXEC)
        return self._fd

    def free_left_space(self) -> None:
        """Frees disk space that a killed process had reserved for the active segment."""
        give_back_if_left(self.path, self.size_bytes)

    def duplicate_file(self) -> int:
        """A descriptor of its own for a sync in another thread; -1 if the file is not open."""
        return os.dup(self._fd) if self._fd >= 0 else -1

    def release(self) -> None:
        """Closes files and mappings; bytes that readers still use keep their mapping alive."""
        if self._fd >= 0:
            self.give_space_back()
            os.close(self._fd)
            self._fd = -1
        self._view = memoryview(b"")
        self._map = None
        self._mapped_bytes = 0
        if self.sealed:
            self.index = None

    def close(self) -> None:
        """Releases the files and mappings; the segment is not used again."""
        self._files.forget(self)
        self.release()

    def _remap(self) -> None:
        if self._map is None and self._fd < 0:
            self._files.opened(self)
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(fd, self.size_bytes, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise DamagedError(
                f"{self.path} is shorter than its {self.size_bytes} bytes"
            ) from error
        finally:
            if fd != self._fd:
                os.close(fd)
        self._view = memoryview(self._map)
        self._mapped_bytes = self.size_bytes

    def _window(self, position: int, want_bytes: int) -> tuple[memoryview | bytes, int]:
        """Bytes from a position on, or from before it, and the position of the first byte."""
        if position < self._mapped_bytes:
            return self._view, 0
        want_bytes = min(want_bytes, self.size_bytes - position)
        data = os.pread(self._open(), want_bytes, position)
        if len(data) != want_bytes:
            raise DamagedError(f"{self.path} is shorter than its {self.size_bytes} bytes")
        return data, position

    # -- reading

    def _loaded_index(self) -> SegmentIndex:
        if self.index is None:
            if self._map is None and self._fd < 0 and self.size_bytes:
                self._remap()
            try:
                self.index = self._read_index()
            except DamagedIndexError as error:
                return self._rebuilt_index(str(error))
        return self.index

    def _read_index(self) -> SegmentIndex:
        try:
            return read_index(self.stem, self.base_offset, self.size_bytes)
        except EmptyIndexError:
            index = read_timeless_index(self.stem, self.base_offset, self.size_bytes)
            last = index.last_offset_entry()
            if self._has_time(0) or (last is not None and self._has_time(last[1])):
                raise
            return index

    def _has_time(self, position: int) -> bool:
        """Whether the batch at a position has a timestamp; only few clients send none."""
        buffer, origin = self._window(position, _HEADER)
        if len(buffer) - (position - origin) < _HEADER:
            return True
        return int(_peek_times(buffer, position - origin)[3]) > NO_TIMESTAMP

    def _rebuilt_index(self, reason: str) -> SegmentIndex:
        text = "building the indexes of %(path)s anew: %(reason)s"
        logger.warning("index_rebuilt", text, path=self.path, reason=reason)
        if self.size_bytes > READ_AT_ONCE_BYTES and _loop_is_running():
            for suffix in (layout.INDEX_SUFFIX, layout.TIME_INDEX_SUFFIX):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.stem + suffix)
            raise IndexLostError(f"the indexes of {self.path} are of no use: {reason}")
        index = self._build_index(self.path, self.base_offset)
        index.write(self.stem)
        self.index = index
        self.max_time = None
        return index

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """As PartitionLog.read, within this segment."""
        try:
            return self._read(offset, max_bytes, end_offset)
        except DamagedIndexError as error:
            self._rebuilt_index(str(error))
        try:
            return self._read(offset, max_bytes, end_offset)
        except DamagedIndexError as error:
            raise DamagedError(f"{self.path} is damaged: {error}") from error

    def _read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        size_bytes = self.size_bytes
        unmapped_bytes = size_bytes - self._mapped_bytes
        if unmapped_bytes and (self.sealed or unmapped_bytes >= REMAP_BYTES):
            self._remap()
        if self._mapped_bytes:
            # A mapping of bytes that the file no longer has ends the process when it is read.
            found = os.fstat(self._fd) if self._fd >= 0 else os.stat(self.path)
            if found.st_size < self._mapped_bytes:
                raise DamagedError(f"{self.path} is shorter than its {size_bytes} bytes")
        self.used = True
        index = self.index if self.index is not None else self._loaded_index()
        start, buffer, origin = self._locate(index.floor(offset), offset)
        if start < 0:
            return b""
        if self.end_offset <= end_offset and size_bytes - start <= max_bytes:
            stop = size_bytes
        else:
            stop = self._stop(index, start, max_bytes, end_offset)
            if stop == start:
                return b""
        if stop > self._mapped_bytes:
            if start < self._mapped_bytes:
                stop = self._mapped_bytes  # batches end where the mapping ends
            elif stop > origin + len(buffer):
                buffer, origin = self._window(start, stop - start)
        return buffer[start - origin : stop - origin]

    def _locate(self, position: int, offset: int) -> tuple[int, memoryview | bytes, int]:
        """The position of the batch that contains an offset, or of the next one; -1 if there is none."""
        size_bytes = self.size_bytes
        first = position
        while position < size_bytes:
            buffer, origin = self._window(position, _WINDOW_BYTES)
            at = position - origin
            limit = len(buffer) - _HEADER
            if at > limit:
                raise DamagedIndexError(f"no batch at {position}")
            while at <= limit:
                base_offset, length, delta = _peek(buffer, at)
                if length < _MIN_LENGTH or base_offset < self.base_offset:
                    raise DamagedIndexError(f"no batch at {origin + at}")
                if base_offset + delta >= offset:
                    if base_offset > offset and origin + at == first > 0:
                        # An index may lead to a batch before the offset, not past it.
                        raise DamagedIndexError(f"offset {offset} is not behind {first}")
                    return origin + at, buffer, origin
                at += length + _PREFIX
            position = origin + at
        if position > size_bytes:
            raise DamagedIndexError(f"the last batch ends at {position} of {size_bytes} bytes")
        return -1, b"", 0

    def _stop(self, index: SegmentIndex, start: int, max_bytes: int, end_offset: int) -> int:
        """The end of the last batch that fits; `start` if there is none below `end_offset`."""
        size_bytes = self.size_bytes
        limit = start + max_bytes
        position = max(start, index.last_position(limit, end_offset))
        while position < size_bytes:
            buffer, origin = self._window(position, _WINDOW_BYTES)
            at = position - origin
            last_header = len(buffer) - _HEADER
            if at > last_header:
                raise DamagedIndexError(f"no batch at {position}")
            while at <= last_header:
                base_offset, length, delta = _peek(buffer, at)
                if length < _MIN_LENGTH or base_offset < self.base_offset:
                    raise DamagedIndexError(f"no batch at {origin + at}")
                following = at + length + _PREFIX
                if base_offset + delta >= end_offset:
                    return origin + at
                if origin + following > limit and origin + at > start:
                    return origin + at
                at = following
            position = origin + at
        if position > size_bytes:
            raise DamagedIndexError(f"the last batch ends at {position} of {size_bytes} bytes")
        return position

    def batch(self, offset: int) -> Buffer | None:
        """The batch that contains an offset, or the next one in this segment."""
        return self.read(offset, 0, _NEVER) or None

    # -- times

    def largest_time(self) -> TimePoint:
        """The largest timestamp and the last offset of the first batch that has it."""
        if not self.sealed:
            assert self.index is not None
            return self.index.latest
        if self.max_time is None:
            found = self._loaded_index().last_time_entry()
            if found.timestamp_ms > NO_TIMESTAMP and not self._is_time_of(found):
                found = self._rebuilt_index("the time index does not fit").last_time_entry()
            self.max_time = found
        return self.max_time

    def age_time_ms(self) -> int:
        """The time from which the segment ages: its largest timestamp, or the last change of its file."""
        timestamp_ms = self.largest_time().timestamp_ms
        if timestamp_ms > NO_TIMESTAMP:
            return timestamp_ms
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def _is_time_of(self, point: TimePoint) -> bool:
        """Whether the batch that an entry of the time index names has that timestamp."""
        batch = self.batch(point.offset)
        return batch is not None and _peek_times(batch)[3] == point.timestamp_ms

    def first_time_ms(self) -> int:
        """The largest timestamp of the first batch, which ages the segment; -1 if there is none."""
        if self.first_timestamp_ms is None:
            if not self.size_bytes:
                return NO_TIMESTAMP
            buffer, origin = self._window(0, _HEADER)
            self.first_timestamp_ms = _peek_times(buffer, -origin)[3]
        return self.first_timestamp_ms

    def first_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        """The first batch at or after an offset whose largest timestamp is at least this."""
        found = self._loaded_index().floor_time(timestamp_ms)
        if found is not None and found.offset > offset and not self._is_time_of(found):
            found = self._rebuilt_index("the time index does not fit").floor_time(timestamp_ms)
        start = offset if found is None else max(offset, found.offset)
        return self._first_batch(start, timestamp_ms)

    def _first_batch(self, offset: int, timestamp_ms: int) -> Buffer | None:
        while True:
            data = self.read(offset, _WINDOW_BYTES, _NEVER)
            if not data:
                return None
            at = 0
            while at < len(data):
                base_offset, length, delta, found_ms = _peek_times(data, at)
                if found_ms >= timestamp_ms:
                    return data[at : at + length + _PREFIX]
                offset = base_offset + delta + 1
                at += length + _PREFIX

    def largest_time_from(self, offset: int) -> TimePoint | None:
        """As `largest_time`, among the batches at or after an offset; None if there is none."""
        largest = None
        while True:
            data = self.read(offset, _WINDOW_BYTES * 4, _NEVER)
            if not data:
                return largest
            at = 0
            while at < len(data):
                base_offset, length, delta, found_ms = _peek_times(data, at)
                if largest is None or found_ms > largest.timestamp_ms:
                    largest = TimePoint(found_ms, base_offset + delta)
                offset = base_offset + delta + 1
                at += length + _PREFIX


def _loop_is_running() -> bool:
    """Whether this is an event loop's thread, which has other clients to serve."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
