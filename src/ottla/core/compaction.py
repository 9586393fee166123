"""The rules of log compaction: the last record of every key stays, and batches that readers and producers still need.

A log is cleaned from its start up to the first segment that may not be cleaned yet, in three passes: the first finds
the aborted transactions, the second maps every key of the part that was never cleaned (the dirty part) to its last
offset, the third decides for each batch which records stay. Offsets never change. All this is as in Kafka's LogCleaner.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.core import retention
from ottla.core.producer_state import ProducerStates
from ottla.records.batch import (
    DEFAULT_LIMIT_BYTES,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RECORDS_AT_ONCE,
    BatchFlag,
    BatchHeader,
    TimestampType,
    payload,
    read_batch,
    read_in_parts,
    with_records,
    with_section,
)
from ottla.records.control import MarkerType, parse_marker_type
from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecordsError
from ottla.records.kernel import encode_records
from ottla.records.record import INT32_MAX, Buffer, Record

# The memory of a map entry beside the key's bytes: a bytes object, an int, and a share of the dict.
ENTRY_BYTES: Final = 150
_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY_BYTES: Final = 12
_CODEC_MASK: Final = 0x07
# As plain numbers: every batch is tested for them.
_TRANSACTIONAL: Final = int(BatchFlag.TRANSACTIONAL)
_CONTROL: Final = int(BatchFlag.CONTROL)

# base offset, length, checksum, attributes, last offset delta, producer id
_TRANSACTION_PEEK: Final = struct.Struct(">qi5xIhi16xq")
_CHECKED_FROM_BYTES: Final = 21
_LENGTH_STARTS_AFTER_BYTES: Final = 12


class CleanableSegment(retention.AgedSegment, Protocol):
    @property
    def base_offset(self) -> int: ...


AnySegment = TypeVar("AnySegment", bound=CleanableSegment)


# When a log is cleaned, and how far.


class Cleanable(NamedTuple):
    """The part of a log that may be cleaned: below `end_offset`, and dirty from `first_dirty_offset` on."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, min_dirty_ratio: float, overdue: bool) -> bool:
        """Whether it is dirty enough, or has been dirty for too long."""
        return self.dirty_bytes > 0 and (overdue or self.dirty_ratio > min_dirty_ratio)


def first_dirty_offset(cleaned_offset: int | None, start_offset: int, end_offset: int) -> int:
    """The start of the dirty part; a saved offset that does not fit the log is ignored."""
    if cleaned_offset is None or not start_offset <= cleaned_offset <= end_offset:
        return start_offset
    return cleaned_offset


def cleanable(
    segments: Sequence[CleanableSegment],
    dirty_offset: int,
    last_stable_offset: int,
    now_ms: int,
    min_lag_ms: int,
) -> Cleanable:
    """The part to clean: sealed segments below the last stable offset whose records are old enough."""
    limit = min(last_stable_offset, segments[-1].base_offset)
    if min_lag_ms > 0:
        for segment in segments[:-1]:
            is_dirty = segment.end_offset > dirty_offset
            if is_dirty and segment.max_timestamp_ms > now_ms - min_lag_ms:
                limit = min(limit, segment.base_offset)
                break
    # Only whole segments: the one that contains the limit is not cleaned.
    end_offset = max(
        (segment.base_offset for segment in segments if segment.base_offset <= limit),
        default=segments[0].base_offset,
    )
    below = [segment for segment in segments if segment.base_offset < end_offset]
    return Cleanable(
        dirty_offset,
        end_offset,
        sum(segment.size_bytes for segment in below if segment.base_offset < dirty_offset),
        sum(segment.size_bytes for segment in below if segment.end_offset > dirty_offset),
    )


def is_overdue(first_timestamp_ms: int, now_ms: int, max_lag_ms: int) -> bool:
    """Whether a dirty segment began too long ago, by the timestamp of its first batch."""
    return 0 < first_timestamp_ms < now_ms - max_lag_ms


def group_segments(
    segments: Sequence[AnySegment],
    max_bytes: int,
    max_index_bytes: int,
    index_interval_bytes: int,
) -> list[list[AnySegment]]:
    """Groups neighbours that fit into one segment, so that repeated cleaning does not leave ever smaller segments."""
    groups: list[list[AnySegment]] = []
    size_bytes = 0
    for segment in segments:
        joined_bytes = size_bytes + segment.size_bytes
        # An index has at most one entry per `index_interval_bytes` of batches.
        entries = joined_bytes // max(index_interval_bytes, 1) + 1
        if (
            groups
            and joined_bytes <= max_bytes
            and entries * _OFFSET_ENTRY_BYTES <= max_index_bytes
            and entries * _TIME_ENTRY_BYTES <= max_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= INT32_MAX
        ):
            groups[-1].append(segment)
            size_bytes = joined_bytes
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups


# The first pass: which transactions were aborted.


class Aborted:
    """The aborted transactions of a log, found by reading its batches in order."""

    def __init__(self) -> None:
        # Producers with data that no marker has ended yet, and where it begins.
        self._open: dict[int, int] = {}
        # By producer: first offsets and markers' offsets, both rising.
        self._ended: dict[int, tuple[list[int], list[int]]] = {}

    @property
    def has_open(self) -> bool:
        """Whether a transaction has no marker yet."""
        return bool(self._open)

    def see(self, chunk: Buffer) -> int:
        """Reads the consecutive batches of a chunk; returns the next offset.

        CorruptRecordsError if a transactional batch is damaged: it might lead to wrong decisions about others.
        """
        peek = _TRANSACTION_PEEK.unpack_from
        position, last_offset = 0, -1
        while position < len(chunk):
            base_offset, length, crc, attributes, delta, producer_id = peek(chunk, position)
            last_offset = base_offset + delta
            end = position + length + _LENGTH_STARTS_AFTER_BYTES
            if attributes & _TRANSACTIONAL:
                if crc32c(memoryview(chunk)[position + _CHECKED_FROM_BYTES : end]) != crc:
                    raise CorruptRecordsError(f"the batch at offset {base_offset} is damaged")
                if not attributes & _CONTROL:
                    self._open.setdefault(producer_id, base_offset)
                else:
                    self._end(producer_id, base_offset, marker_type(chunk, position))
            position = end
        return last_offset + 1

    def _end(self, producer_id: int, offset: int, outcome: MarkerType | None) -> None:
        if outcome is None:
            return
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None and outcome is MarkerType.ABORT:
            firsts, lasts = self._ended.setdefault(producer_id, ([], []))
            firsts.append(first_offset)
            lasts.append(offset)

    def has(self, producer_id: int, offset: int) -> bool:
        """Whether transactional data of a producer at an offset was aborted."""
        found = self._ended.get(producer_id)
        if found is None:
            return False
        firsts, lasts = found
        number = bisect_left(lasts, offset)
        return number < len(lasts) and firsts[number] <= offset


def marker_type(chunk: Buffer, position: int) -> MarkerType | None:
    """The marker in a control batch; None if it has no marker, or was emptied."""
    records = read_batch(chunk, position)
    return parse_marker_type(records[0].key) if records else None


# The second pass: the last offset of every dirty key.


class LastOffsets:
    """The last offset of every key in the dirty part, as far as the memory allows."""

    def __init__(self, limit_bytes: int, dirty_offset: int) -> None:
        self.by_key: dict[bytes | None, int] = {}  # None is never in it, but may be asked for
        self._limit_bytes = limit_bytes
        self._used_bytes = 0
        self._dirty_offset = dirty_offset
        # Every key below is known.
        self.end_offset = dirty_offset

    def add(
        self,
        chunk: Buffer,
        position: int,
        header: BatchHeader,
        aborted: Aborted,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> bool:
        """Adds the keys of a batch; False if the map is full before all of them are added.

        TooLargeError, without any effect, if the batch decompresses to more than the limit.
        """
        is_data = not header.is_control and not (
            header.is_transactional and aborted.has(header.producer_id, header.base_offset)
        )
        if is_data and header.last_offset >= self._dirty_offset:
            for records in read_in_parts(payload(chunk, position, header, limit_bytes), header):
                if not self._add_records(records):
                    return False
                if records:
                    self.end_offset = max(self.end_offset, records[-1].offset + 1)
        self.end_offset = max(self.end_offset, header.last_offset + 1)
        return True

    def _add_records(self, records: Sequence[Record]) -> bool:
        found = {record[2]: record[0] for record in records if record[0] >= self._dirty_offset}
        found.pop(None, None)
        needed_bytes = ENTRY_BYTES * len(found) + sum(map(len, found))  # type: ignore[arg-type]
        if self._used_bytes + needed_bytes > self._limit_bytes:
            return self._add_one_by_one(records)
        known_count = len(self.by_key)
        self.by_key.update(found)
        if found:
            # An estimate, as if all keys of a batch had one length: counting the bytes of new keys would cost more.
            new_share = (len(self.by_key) - known_count) / len(found)
            self._used_bytes += round(new_share * needed_bytes)
        return True

    def _add_one_by_one(self, records: Sequence[Record]) -> bool:
        """Adds keys until the map is full; at least one, so that every cleaning makes progress."""
        by_key = self.by_key
        for offset, _, key, _, _ in records:
            if key is None or offset < self._dirty_offset:
                continue
            if key not in by_key:
                used_bytes = self._used_bytes + len(key) + ENTRY_BYTES
                if used_bytes > self._limit_bytes and by_key:
                    return False
                self._used_bytes = used_bytes
            by_key[key] = offset
            self.end_offset = offset + 1
        return True

    def seen_up_to(self, end_offset: int) -> None:
        """All batches below an offset were added; there may be a gap behind the last one."""
        self.end_offset = max(self.end_offset, end_offset)


# The third pass: which records stay.


class LastOfProducer(NamedTuple):
    """The source of a producer's state: its last batch, or, without one, a marker with its epoch."""

    last_data_offset: int | None
    epoch: int


class KeptBatch(NamedTuple):
    """A batch that stays, perhaps with fewer records than before."""

    data: Buffer
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


def last_of_producers(producers: ProducerStates) -> dict[int, LastOfProducer]:
    """The batches that must stay, so that a replay of the log restores the producers."""
    return {
        producer.producer_id: LastOfProducer(
            producer.recent_batches[-1].last_offset if producer.recent_batches else None,
            producer.epoch,
        )
        for producer in producers
    }


class Cleaning:
    """One cleaning of a log: the caller passes its batches to `keep` in order, from the start of the log on."""

    def __init__(
        self,
        offsets: LastOffsets,
        aborted: Aborted,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        # Accepts None, which is no key of the map.
        self._last_offset_of: Callable[[bytes | None], int | None] = offsets.by_key.get
        self._known_end_offset = offsets.end_offset
        self._aborted = aborted
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        # Producers with data since their last marker.
        self._with_data: dict[int, None] = {}

    def keep(
        self,
        chunk: memoryview,
        position: int,
        header: BatchHeader,
        producers: Mapping[int, LastOfProducer],
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> KeptBatch | None:
        """The batch that replaces the one at a position; None if it is removed.

        TooLargeError if the batch decompresses to more than the limit; the caller may pass it again then.
        """
        emptied = self._is_needed_empty(header, producers)
        if header.is_control:
            may_go = self._is_idle_marker(chunk, position, header)
            if may_go and self._horizon_has_passed(header):
                return _without_records(header) if emptied else None
            if may_go and not header.has_delete_horizon and header.record_count:
                return _with_records(*self._horizon(header), [read_batch(chunk, position)])
            return _unchanged(chunk, position, header)
        if header.is_transactional:
            self._with_data[header.producer_id] = None
            if self._aborted.has(header.producer_id, header.base_offset):
                return _without_records(header) if emptied else None
        return self._keep_data(chunk, position, header, emptied, limit_bytes)

    def _is_needed_empty(
        self, header: BatchHeader, producers: Mapping[int, LastOfProducer]
    ) -> bool:
        """Whether the batch stays even without records: for its sequence, or as the end of the cleaned part."""
        if header.last_offset + 1 == self._end_offset:
            return True
        if header.producer_id <= NO_PRODUCER_ID:
            return False
        last = producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _is_idle_marker(self, chunk: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the transaction that a marker ended has no records left."""
        if not header.record_count:
            return True
        if marker_type(chunk, position) is None:
            return False
        if header.producer_id in self._with_data:
            del self._with_data[header.producer_id]
            return False
        return True

    def _horizon_has_passed(self, header: BatchHeader) -> bool:
        """Whether the delete horizon has passed; an emptied marker has none, because it had passed before."""
        if not header.record_count:
            return True
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _keep_data(
        self,
        chunk: memoryview,
        position: int,
        header: BatchHeader,
        emptied: bool,
        limit_bytes: int,
    ) -> KeptBatch | None:
        known_end_offset = self._known_end_offset
        if header.base_offset >= known_end_offset:
            return _unchanged(chunk, position, header)
        section = payload(chunk, position, header, limit_bytes)
        # The time of tombstones begins when every older record of their keys is removed (KIP-534): not in a batch that
        # reaches into the part that stays dirty.
        may_begin = not header.has_delete_horizon and header.last_offset < known_end_offset
        count = kept_count = 0
        first_ms: int | None = None
        has_tombstone = False
        for records in read_in_parts(section, header):
            kept = self._kept_of(records, header)
            count += len(records)
            kept_count += len(kept)
            if kept and first_ms is None:
                first_ms = kept[0].timestamp
            has_tombstone |= may_begin and any(record[3] is None for record in kept)
        if first_ms is None:
            return _without_records(header) if emptied else None
        if kept_count == count and not has_tombstone:
            return _unchanged(chunk, position, header)
        # A batch with very many records is decoded again in parts: all its objects would take gigabytes.
        parts: Iterable[list[Record]] = (
            [kept]
            if header.record_count <= RECORDS_AT_ONCE
            else (self._kept_of(records, header) for records in read_in_parts(section, header))
        )
        if has_tombstone:
            return _with_records(*self._horizon(header), parts)
        if header.has_delete_horizon:
            return _with_records(header, header.base_timestamp, parts)
        return _with_records(header, first_ms, parts)

    def _kept_of(self, records: list[Record], header: BatchHeader) -> list[Record]:
        """The records of a batch that stay."""
        known_end_offset = self._known_end_offset
        keys = [record[2] for record in records]
        # Records without a key, from before the topic was compacted, are removed: no record could ever replace them.
        kept = [
            record
            for record, last_offset in zip(records, map(self._last_offset_of, keys), strict=True)
            if last_offset is None or last_offset <= record[0]
        ]
        if None in keys:
            kept = [r for r in kept if r[2] is not None or r[0] >= known_end_offset]
        if header.has_delete_horizon and header.base_timestamp <= self._now_ms:
            kept = [r for r in kept if r[3] is not None or r[0] >= known_end_offset]
        return kept

    def _horizon(self, header: BatchHeader) -> tuple[BatchHeader, int]:
        """The header of a batch with its delete horizon, and that time."""
        marked = header._replace(attributes=header.attributes | BatchFlag.DELETE_HORIZON)
        return marked, self._now_ms + self._delete_retention_ms


def _unchanged(chunk: memoryview, position: int, header: BatchHeader) -> KeptBatch:
    data = chunk[position : position + header.size_bytes]
    return KeptBatch(data, header.base_offset, header.last_offset, header.max_timestamp)


def _with_records(
    header: BatchHeader, base_timestamp_ms: int, parts: Iterable[Sequence[Record]]
) -> KeptBatch:
    """The batch with these records only; offsets, sequences and codec stay."""
    sections = []
    count, latest_ms = 0, NO_TIMESTAMP
    for records in parts:
        sections.append(encode_records(records, header.base_offset, base_timestamp_ms))
        latest = max((record.timestamp for record in records), default=None)
        if latest is not None:
            latest_ms = max(latest_ms, latest) if count else latest
        count += len(records)
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    max_timestamp_ms = header.max_timestamp if is_append_time else latest_ms
    changed = header._replace(
        base_timestamp=base_timestamp_ms, max_timestamp=max_timestamp_ms, record_count=count
    )
    section = sections[0] if len(sections) == 1 else b"".join(sections)
    data = with_section(changed, section, None)
    return KeptBatch(data, header.base_offset, header.last_offset, max_timestamp_ms)


def _without_records(header: BatchHeader) -> KeptBatch:
    """The header alone, not compressed, without a horizon."""
    changed = header._replace(
        attributes=header.attributes & ~(_CODEC_MASK | BatchFlag.DELETE_HORIZON),
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    data = with_records(changed, (), None)
    return KeptBatch(data, header.base_offset, header.last_offset, header.max_timestamp)
