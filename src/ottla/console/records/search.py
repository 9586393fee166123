"""A search: the newest or the oldest records of partitions that pass filters, in the order of their timestamps.

The records of one partition are in the order of their offsets, whatever their timestamps are.

Each round reads a window of those partitions that may still have a record which belongs before what is found. A match
is told as soon as no partition can have one that belongs before it, if a partition's timestamps grow with its offsets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from ottla.console.records.filters import Filter
from ottla.console.records.rows import RecordRow, RecordRows
from ottla.console.records.windows import AnyRecord, LogEnds, LogReader, Window, WindowRecords
from ottla.model import TopicPartition

Order = Literal["newest", "oldest"]

FIRST_STEP: Final = 500
MAX_STEP: Final = 20_000
# What one round may read: windows grow up to this size.
ROUND_RECORDS: Final = 40_000
ROUND_BYTES: Final = 24 << 20
# After so long the event loop is left to others.
SLICE_SECONDS: Final = 0.01
ROWS_AT_ONCE: Final = 200


class EndReason(StrEnum):
    """Why a search has ended."""

    LIMIT = "limit"
    END = "end"
    RECORDS = "records"
    BYTES = "bytes"
    SECONDS = "seconds"


@dataclass(frozen=True)
class SearchBounds:
    """How many records a search is for, and what it may cost."""

    limit: int
    max_records: int
    max_bytes: int
    max_seconds: float


@dataclass(frozen=True)
class TimeRange:
    """Timestamps from `since_ms` (inclusive) to `until_ms` (exclusive)."""

    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, record: AnyRecord) -> bool:
        """Whether a record's timestamp is in it."""
        if self.since_ms is not None and record.timestamp_ms < self.since_ms:
            return False
        return self.until_ms is None or record.timestamp_ms < self.until_ms


class Found(NamedTuple):
    """Rows, in order."""

    rows: list[RecordRow]


class FoundRecords(NamedTuple):
    """Records, in order: for a search without rows."""

    records: list[AnyRecord]


@dataclass(frozen=True)
class Progress:
    """How far a search is."""

    scanned_count: int
    scanned_bytes: int
    found_count: int
    share: float
    """Of the offsets in range, those that were read."""
    at_ms: int | None
    """The timestamp that all partitions have reached."""
    elapsed_ms: int


@dataclass(frozen=True)
class Ended:
    """How a search has ended; with `cursor` it goes on."""

    reason: EndReason
    progress: Progress
    cursor: dict[int, int]


class _Match(NamedTuple):
    timestamp_ms: int
    partition: int
    offset: int
    record: AnyRecord | None
    row: RecordRow | None


@dataclass
class _PartitionScan:
    """One partition: what is left of it lies between `start_offset` and `end_offset`."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    stable_offset: int
    step: int
    reached_ms: int | None = None
    """The timestamp of the last record that was read."""
    pending: list[_Match] = field(default_factory=list)
    mean_bytes: float = 0.0

    @property
    def left_count(self) -> int:
        return max(0, self.end_offset - self.start_offset)


class RecordSearch:
    """One search; `run` may be iterated once."""

    def __init__(
        self,
        reader: LogReader,
        rows: RecordRows,
        *,
        order: Order,
        windows: dict[TopicPartition, Window],
        ends: dict[TopicPartition, LogEnds],
        filters: Sequence[Filter],
        times: TimeRange,
        bounds: SearchBounds,
        makes_rows: bool = True,
    ) -> None:
        self._reader = reader
        self._rows = rows
        self._is_newest = order == "newest"
        self._filters = filters
        self._times = times
        self._bounds = bounds
        self._makes_rows = makes_rows
        step = FIRST_STEP
        if not filters:
            # Most often the records of the first round are enough.
            step = max(4, min(FIRST_STEP, 2 * bounds.limit // max(1, len(windows)) + 2))
        self._scans = [
            _PartitionScan(each, *window, ends[each].stable_offset, step)
            for each, window in windows.items()
        ]
        self._offset_count = sum(each.left_count for each in self._scans)
        self._scanned_count = self._scanned_bytes = self._found_count = 0
        self._began = self._slice_began = time.monotonic()
        self._is_timed_out = False

    async def run(self) -> AsyncGenerator[Found | FoundRecords | Progress | Ended]:
        """What is found, how far it is, and at last how it ended."""
        while True:
            needed = self._bounds.limit - self._found_count
            active = self._to_read(needed)
            if not active:
                break
            reason = self._bound()
            if reason is not None:
                for found in self._tell(self._take(needed, None)):
                    yield found
                yield self._ended(reason)
                return
            await self._read_round(active)
            needed = self._bounds.limit - self._found_count
            for found in self._tell(self._take(needed, self._watermark())):
                yield found
            yield self._progress()
        for found in self._tell(self._take(self._bounds.limit - self._found_count, None)):
            yield found
        has_more = any(each.left_count or each.pending for each in self._scans)
        yield self._ended(EndReason.LIMIT if has_more else EndReason.END)

    # What to read

    def _to_read(self, needed: int) -> list[_PartitionScan]:
        """The partitions that may have a record which belongs before the last one that is needed."""
        active = [each for each in self._scans if each.left_count]
        if needed <= 0:
            return []
        pending = [match for each in self._scans for match in each.pending]
        if len(pending) < needed:
            return active
        pending.sort(key=self._place)
        last_ms = pending[needed - 1].timestamp_ms
        return [
            each
            for each in active
            if each.reached_ms is None
            or (each.reached_ms > last_ms if self._is_newest else each.reached_ms < last_ms)
        ]

    def _bound(self) -> EndReason | None:
        bounds = self._bounds
        if self._is_timed_out or time.monotonic() - self._began >= bounds.max_seconds:
            return EndReason.SECONDS
        if self._scanned_count >= bounds.max_records:
            return EndReason.RECORDS
        return EndReason.BYTES if self._scanned_bytes >= bounds.max_bytes else None

    async def _read_round(self, active: Sequence[_PartitionScan]) -> None:
        windows = {}
        most = max(1, ROUND_RECORDS // len(active))
        most_bytes = ROUND_BYTES // len(active)
        left = max(1, self._bounds.max_records - self._scanned_count)
        for each in active:
            step = min(each.step, most, left)
            if each.mean_bytes:
                step = max(1, min(step, int(most_bytes / each.mean_bytes)))
            windows[each.partition] = (
                Window(max(each.start_offset, each.end_offset - step), each.end_offset)
                if self._is_newest
                else Window(each.start_offset, min(each.end_offset, each.start_offset + step))
            )
            each.step = min(MAX_STEP, each.step * 4)
        found = await self._reader.read(
            windows,
            {each.partition: each.stable_offset for each in active},
            kept="newest" if self._is_newest else "oldest",
            deadline=self._began + self._bounds.max_seconds,
            max_bytes=max(most_bytes, 1 << 20),
        )
        for each in active:
            await self._scan(each, windows[each.partition], found[each.partition])

    async def _scan(self, scan: _PartitionScan, window: Window, read: WindowRecords) -> None:
        """Filter what was read of a partition, and move its frontier."""
        self._scanned_count += read.read_count
        self._scanned_bytes += read.read_bytes
        is_whole = read.is_full or read.end_offset >= window.end_offset
        self._is_timed_out = self._is_timed_out or not is_whole
        if read.read_count:
            scan.mean_bytes = read.read_bytes / read.read_count
        if self._is_newest and not is_whole:
            # The newest part of the window is missing: what was read belongs behind it.
            return
        for record in read.records:
            await self._let_others_run()
            if self._times.has(record) and await self._passes(record):
                row = None
                if self._makes_rows:
                    is_unstable = record.offset >= scan.stable_offset
                    row = await self._rows.row(record, is_unstable=is_unstable)
                match = _Match(record.timestamp_ms, record.partition, record.offset, record, row)
                scan.pending.append(match if row is None else match._replace(record=None))
        if read.records:
            edge = read.records[0] if self._is_newest else read.records[-1]
            scan.reached_ms = edge.timestamp_ms
        if self._is_newest:
            scan.end_offset = read.begin_offset
        else:
            scan.start_offset = read.end_offset

    async def _passes(self, record: AnyRecord) -> bool:
        for each in self._filters:
            if not await each.matches(record, self._rows.text):
                return False
        return True

    async def _let_others_run(self) -> None:
        now = time.monotonic()
        if now - self._slice_began >= SLICE_SECONDS:
            await asyncio.sleep(0)
            self._slice_began = time.monotonic()

    # What to tell

    def _place(self, match: _Match) -> tuple[int, int, int]:
        """Where a match belongs."""
        if self._is_newest:
            return -match.timestamp_ms, match.partition, -match.offset
        return match.timestamp_ms, match.partition, match.offset

    def _watermark(self) -> int | None:
        """The timestamp that all partitions which are not read to their end have reached; None: any."""
        reached = [each.reached_ms for each in self._scans if each.left_count]
        if not reached:
            return None
        known = [each for each in reached if each is not None]
        if len(known) < len(reached):
            # One of them may have anything.
            return _BEYOND if self._is_newest else -_BEYOND
        return max(known) if self._is_newest else min(known)

    def _take(self, needed: int, watermark: int | None) -> list[_Match]:
        """The matches that come next, at most `needed` of them."""
        certain = [
            match
            for each in self._scans
            for match in each.pending
            if watermark is None
            or (
                match.timestamp_ms >= watermark
                if self._is_newest
                else match.timestamp_ms <= watermark
            )
        ]
        certain.sort(key=self._place)
        taken = self._by_offset(certain[: max(0, needed)])
        chosen = {(match.partition, match.offset) for match in taken}
        for each in self._scans:
            if each.pending:
                each.pending = [m for m in each.pending if (m.partition, m.offset) not in chosen]
        self._found_count += len(taken)
        return taken

    def _by_offset(self, places: Sequence[_Match]) -> list[_Match]:
        """As many of each partition at these places, in the order of their offsets.

        Timestamps may go back: a producer sets them, before it waits for the marker of its last transaction. A record
        that was told out of turn would be told again when the search goes on.
        """
        left = {
            each.partition.partition: iter(
                sorted(each.pending, key=lambda match: match.offset, reverse=self._is_newest)
            )
            for each in self._scans
        }
        return [next(left[match.partition]) for match in places]

    def _tell(self, matches: Sequence[_Match]) -> Iterable[Found | FoundRecords]:
        for at in range(0, len(matches), ROWS_AT_ONCE):
            some = matches[at : at + ROWS_AT_ONCE]
            if self._makes_rows:
                yield Found([match.row for match in some if match.row is not None])
            else:
                yield FoundRecords([match.record for match in some if match.record is not None])

    def _progress(self) -> Progress:
        left = sum(each.left_count for each in self._scans)
        watermark = self._watermark()
        return Progress(
            scanned_count=self._scanned_count,
            scanned_bytes=self._scanned_bytes,
            found_count=self._found_count,
            share=1.0 if not self._offset_count else 1 - left / self._offset_count,
            at_ms=None if watermark is None or abs(watermark) == _BEYOND else watermark,
            elapsed_ms=round((time.monotonic() - self._began) * 1000),
        )

    def _ended(self, reason: EndReason) -> Ended:
        return Ended(reason, self._progress(), {} if reason is EndReason.END else self._cursor())

    def _cursor(self) -> dict[int, int]:
        """Where each partition goes on: with what was found and not told, or where reading stopped."""
        found = {}
        for each in self._scans:
            offsets = [match.offset for match in each.pending]
            number = each.partition.partition
            if self._is_newest:
                found[number] = max(offsets) + 1 if offsets else each.end_offset
            else:
                found[number] = min(offsets) if offsets else each.start_offset
        return found


_BEYOND: Final = 1 << 62
