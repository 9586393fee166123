"""Reading the indexes of a segment without trusting them, and comparing them with the segment."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.core.aborted import AbortedSpan
from ottla.records.control import MarkerType, parse_marker_type
from ottla.records.errors import CorruptRecordsError
from ottla.storage.local.folder import layout
from ottla.storage.local.inspection.untrusted_segment import (
    Flaw,
    FoundBatch,
    SegmentFile,
    base_offset_of,
)
from ottla.storage.local.log.index import NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.local.log.transaction_index import ENTRY_BYTES, VERSION, read_entry

_CHUNK_ENTRIES: Final = 4096
_DELETING_SECONDS: Final = 0.1


class OffsetEntry(NamedTuple):
    """The position of the batch that ends with an offset."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp up to an offset."""

    timestamp_ms: int
    offset: int


class AbortedEntry(NamedTuple):
    """An aborted transaction."""

    version: int
    span: AbortedSpan


def offset_entries(path: str) -> Iterator[OffsetEntry | Flaw]:
    """The entries of an .index file, and the faults that a comparison with its segment finds."""
    base_offset = base_offset_of(path)
    # Batches are written before their entries: the segment, which is opened later, has the batches of all entries.
    with _Index(path, OFFSET_ENTRY) as index, _Beside(path) as batches:
        yield from batches.flaws
        last = OffsetEntry(-1, -1)
        for at, (relative, position) in index.entries():
            entry = OffsetEntry(base_offset + relative, position)
            yield entry
            if entry.offset <= last.offset or position <= last.position:
                yield Flaw(at, f"offset {entry.offset} at {position} is out of order")
            elif batches.is_there:
                yield from batches.check_position(at, entry)
            last = entry
        yield from index.rest()


def time_entries(path: str) -> Iterator[TimeEntry | Flaw]:
    """The entries of a .timeindex file, and the faults that a comparison with its segment finds."""
    base_offset = base_offset_of(path)
    with _Index(path, TIME_ENTRY) as index, _Beside(path) as batches:
        yield from batches.flaws
        last = TimeEntry(NO_TIMESTAMP, -1)
        for at, (timestamp_ms, relative) in index.entries():
            entry = TimeEntry(timestamp_ms, base_offset + relative)
            yield entry
            if timestamp_ms <= last.timestamp_ms or entry.offset <= last.offset:
                yield Flaw(at, f"timestamp {timestamp_ms} at offset {entry.offset} is out of order")
            elif batches.is_there:
                yield from batches.check_time(at, entry)
            last = entry
        yield from index.rest()


def aborted_entries(path: str) -> Iterator[AbortedEntry | Flaw]:
    """The entries of a .txnindex file, and the faults that a comparison with its segment finds."""
    last_marker = base_offset_of(path) - 1
    with open(path, "rb") as file, _Beside(path) as batches:
        size_bytes = os.fstat(file.fileno()).st_size
        yield from batches.flaws
        at = 0
        while len(data := file.read(min(ENTRY_BYTES, size_bytes - at))) == ENTRY_BYTES:
            entry = AbortedEntry(*read_entry(data, 0))
            yield entry
            span = entry.span
            if entry.version != VERSION:
                yield Flaw(at, f"there is no version {entry.version}")
            elif not (last_marker < span.last_offset and 0 <= span.first_offset < span.last_offset):
                yield Flaw(at, f"the offsets from {span.first_offset} on are out of order")
            else:
                last_marker = span.last_offset
                if batches.is_there:
                    yield from batches.check_marker(at, span)
            at += ENTRY_BYTES
        if data:
            yield Flaw(at, f"the last entry has {len(data)} bytes instead of {ENTRY_BYTES}")


class _Beside:
    """The batches of the segment that an index belongs to, one after the other."""

    def __init__(self, path: str) -> None:
        self._index_path = path
        suffix = os.path.basename(path).split(".", 1)[1]
        moved = f".{suffix.partition('.')[2]}" if "." in suffix else ""
        stem = os.path.join(os.path.dirname(path), os.path.basename(path).split(".", 1)[0])
        self._path = stem + layout.LOG_SUFFIX + moved
        self._segment: SegmentFile | None = None
        self.flaws: list[Flaw] = []
        self._batch: FoundBatch | None = None
        self._largest_ms = NO_TIMESTAMP

    def __enter__(self) -> _Beside:
        try:
            self._segment = SegmentFile(self._path)
        except FileNotFoundError:
            # A deletion removes the segment before its indexes.
            time.sleep(_DELETING_SECONDS)
            if not os.path.exists(self._index_path):
                raise
            self.flaws.append(Flaw(0, f"there is no segment {os.path.basename(self._path)}"))
            return self
        self._batches = self._segment.good_batches()
        self._advance()
        return self

    def __exit__(self, *_: object) -> None:
        if self._segment is not None:
            self._batches.close()
            self._segment.__exit__()

    @property
    def is_there(self) -> bool:
        return self._segment is not None

    def _advance(self) -> None:
        self._batch = next(self._batches, None)
        if self._batch is not None:
            self._largest_ms = max(self._largest_ms, self._batch.max_timestamp_ms)

    def _advance_to(self, offset: int) -> FoundBatch | None:
        """The batch with an offset, or the first one behind it."""
        while self._batch is not None and self._batch.last_offset < offset:
            self._advance()
        return self._batch

    def check_position(self, at: int, entry: OffsetEntry) -> Iterator[Flaw]:
        """Whether a batch begins there, and the offset is its last."""
        while self._batch is not None and self._batch.position < entry.position:
            self._advance()
        if self._batch is None or self._batch.position != entry.position:
            yield Flaw(at, f"no batch begins at position {entry.position}")
            return
        first = self._batch
        # Followers of Kafka before 4.0 write several batches at once: the position is that of the first, the offset
        # that of the last.
        found = self._advance_to(entry.offset)
        if found is None or found.last_offset != entry.offset:
            yield Flaw(
                at,
                f"offset {entry.offset} where the batch at {entry.position} ends with {first.last_offset}",
            )

    def check_time(self, at: int, entry: TimeEntry) -> Iterator[Flaw]:
        """Whether it is the largest timestamp up to the batch that has the offset, and this batch's."""
        found = self._advance_to(entry.offset)
        if found is None or found.base_offset > entry.offset:
            yield Flaw(at, f"no batch has offset {entry.offset}")
        elif found.max_timestamp_ms != entry.timestamp_ms:
            yield Flaw(
                at,
                f"timestamp {entry.timestamp_ms} where the batch with offset {entry.offset} "
                f"has {found.max_timestamp_ms}",
            )
        elif self._largest_ms > entry.timestamp_ms:
            yield Flaw(at, f"a batch before offset {entry.offset} has timestamp {self._largest_ms}")

    def check_marker(self, at: int, span: AbortedSpan) -> Iterator[Flaw]:
        """Whether the last offset is that of a marker which aborts."""
        assert self._segment is not None
        found = self._advance_to(span.last_offset)
        if found is None:
            yield Flaw(at, f"the segment ends before offset {span.last_offset}")
        elif found.base_offset <= span.last_offset and not _aborts(self._segment, found, span):
            yield Flaw(
                at, f"offset {span.last_offset} is no abort marker of producer {span.producer_id}"
            )


def _aborts(segment: SegmentFile, batch: FoundBatch, span: AbortedSpan) -> bool:
    if batch.header is None or not batch.header.is_control:
        return False
    try:
        records = segment.records(batch)
        # Compaction may have removed the marker.
        return batch.header.producer_id == span.producer_id and all(
            parse_marker_type(record.key) is MarkerType.ABORT for record in records
        )
    except CorruptRecordsError:
        return False


class _Index:
    """An index file, up to the size that it has when it is opened."""

    def __init__(self, path: str, form: struct.Struct) -> None:
        self._form = form
        self._file = open(path, "rb")  # noqa: SIM115 - closed by __exit__
        self._size_bytes = os.fstat(self._file.fileno()).st_size
        self._filled_bytes = self._find_filled()

    def __enter__(self) -> _Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def entries(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """The complete entries with their positions."""
        entry_bytes, at = self._form.size, 0
        self._file.seek(0)
        while at < self._filled_bytes:
            data = self._file.read(min(entry_bytes * _CHUNK_ENTRIES, self._filled_bytes - at))
            if len(data) < entry_bytes:
                return
            whole = data[: len(data) // entry_bytes * entry_bytes]
            for first, second in self._form.iter_unpack(whole):
                yield at, (first, second)
                at += entry_bytes

    def rest(self) -> Iterator[Flaw]:
        """The bytes at the end that are too few for an entry."""
        entry_bytes = self._form.size
        left_bytes = self._size_bytes % entry_bytes
        if left_bytes:
            text = f"the last entry has {left_bytes} bytes instead of {entry_bytes}"
            yield Flaw(self._size_bytes - left_bytes, text)

    def _find_filled(self) -> int:
        """The size of the entries without the zeros behind them: Kafka allocates the files before it fills them.

        A single entry of zeros can be real.
        """
        entry_bytes = self._form.size
        whole_bytes = end = self._size_bytes // entry_bytes * entry_bytes
        if whole_bytes == entry_bytes:
            return entry_bytes
        while end:
            start = max(0, end - entry_bytes * _CHUNK_ENTRIES)
            self._file.seek(start)
            data = self._file.read(end - start).rstrip(b"\0")
            if data:
                return -(-(start + len(data)) // entry_bytes) * entry_bytes
            end = start
        return 0
