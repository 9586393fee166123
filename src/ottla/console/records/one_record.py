"""One record with all that is known of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.model import ConsumerRecord
from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.console.http.errors import not_found
from ottla.console.records.decoded import Decoded, Format, WantedFormat
from ottla.console.records.decoder import RecordDecoder, cut
from ottla.console.records.rows import (
    ControlView,
    FieldView,
    HeaderView,
    Mark,
    field_view,
    header_view,
    marks_of,
    timestamp_type_of,
)
from ottla.console.records.windows import AnyRecord, LogEnds, LogReader, Window, size_of
from ottla.model import TopicPartition

SECONDS: Final = 15.0
# So many offsets behind a gap are searched for the next record.
NEXT_OFFSETS: Final = 2_000
MAX_BYTES: Final = 256 << 20
MAX_HEADER_CHARS: Final = 2_000
MAX_HEADERS_AT_ONCE: Final = 1_000


@dataclass(frozen=True)
class FieldDetail(FieldView):
    """A key or value, and how its format was found."""

    tried: list[str]


@dataclass(frozen=True)
class BatchView:
    """The batch that a record was written with; what is None does not apply."""

    base_offset: int
    last_offset: int
    record_count: int
    size_bytes: int
    codec: str
    leader_epoch: int
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None
    """Of the record; batches count from their first one."""
    is_transactional: bool
    is_control: bool


@dataclass(frozen=True)
class RecordDetail:
    """A record; long texts are cut unless they are asked for whole."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    size_bytes: int
    """Of key, value and headers, without compression."""
    key: FieldDetail
    value: FieldDetail
    headers: list[HeaderView]
    header_offset: int
    header_count: int
    mark: Mark | None
    control: ControlView | None
    batch: BatchView | None
    start_offset: int
    stable_offset: int
    end_offset: int


class OneRecord(NamedTuple):
    """A record, and where its partition begins and ends."""

    record: AnyRecord
    ends: LogEnds


async def read_one(reader: LogReader, partition: TopicPartition, offset: int) -> OneRecord:
    """The record at an offset; a control record or an aborted one, too. ApiError where there is none."""
    ends = (await reader.ends([partition]))[partition]
    if not ends.start_offset <= offset < ends.end_offset:
        raise not_found(
            f"{partition} has no offset {offset}: it has those from {ends.start_offset} to "
            f"{ends.end_offset - 1}"
            if ends.start_offset < ends.end_offset
            else f"{partition} is empty: its next offset is {ends.end_offset}",
            "older records are deleted by retention or compaction",
        )
    found = await _first_record(reader, partition, Window(offset, offset + 1), ends)
    if found is not None:
        return OneRecord(found, ends)
    behind = Window(offset + 1, min(ends.end_offset, offset + 1 + NEXT_OFFSETS))
    following = None
    if behind.start_offset < behind.end_offset:
        following = await _first_record(reader, partition, behind, ends)
    raise not_found(
        f"there is no record at offset {offset} of {partition}",
        "compaction has removed it"
        if following is None
        else f"compaction has removed it; the next one is at offset {following.offset}",
    )


async def _first_record(
    reader: LogReader, partition: TopicPartition, window: Window, ends: LogEnds
) -> AnyRecord | None:
    found = await reader.read(
        {partition: window},
        {partition: ends.stable_offset},
        kept="oldest",
        deadline=time.monotonic() + SECONDS,
        max_bytes=MAX_BYTES,
    )
    records = found[partition].records
    return records[0] if records else None


@dataclass(frozen=True)
class DetailOptions:
    """How a record is shown."""

    key_format: WantedFormat
    value_format: WantedFormat
    max_chars: int
    header_offset: int
    header_limit: int


async def detail_of(
    reader: LogReader, decoder: RecordDecoder, one: OneRecord, options: DetailOptions
) -> RecordDetail:
    """All that is known of a record."""
    record, ends = one
    mark, control, _ = marks_of(record)
    if mark is None and record.offset >= ends.stable_offset:
        mark = Mark.UNSTABLE
    at, limit = options.header_offset, min(options.header_limit, MAX_HEADERS_AT_ONCE)
    return RecordDetail(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_type=timestamp_type_of(record),
        size_bytes=size_of(record),
        key=await _detail(decoder, record, True, options.key_format, options.max_chars),
        value=await _detail(decoder, record, False, options.value_format, options.max_chars),
        headers=[
            header_view(name, data, MAX_HEADER_CHARS)
            for name, data in record.headers[at : at + limit]
        ],
        header_offset=at,
        header_count=len(record.headers),
        mark=mark,
        control=control,
        batch=await _batch_of(reader, record),
        start_offset=ends.start_offset,
        stable_offset=ends.stable_offset,
        end_offset=ends.end_offset,
    )


async def _detail(
    decoder: RecordDecoder, record: ConsumerRecord, is_key: bool, wanted: WantedFormat, chars: int
) -> FieldDetail:
    data = record.key if is_key else record.value
    if isinstance(record, MarkedRecord) and record.is_control:
        decoded = Decoded(Format.HEX, (data or b"").hex(" "), tried=("a control record: bytes",))
    else:
        decoded = await decoder.field(record, is_key, wanted)
    view = field_view(decoded, data, chars)
    return FieldDetail(**vars(view), tried=[cut(each, 500)[0] for each in decoded.tried])


async def _batch_of(reader: LogReader, record: AnyRecord) -> BatchView | None:
    found = await reader.batch_at(TopicPartition(record.topic, record.partition), record.offset)
    if found is None:
        return None
    header = found.header
    has_sequence = header.base_sequence >= 0
    return BatchView(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        record_count=header.record_count,
        size_bytes=header.size_bytes,
        codec=header.codec.name.lower(),
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id if header.producer_id >= 0 else None,
        producer_epoch=header.producer_epoch if header.producer_id >= 0 else None,
        sequence=(header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        if has_sequence
        else None,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
