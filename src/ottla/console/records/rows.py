"""A record as a row of the page: cut, decoded, marked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.client.model import ConsumerRecord
from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.console.records.decoded import Decoded, Format, SchemaUse, WantedFormat
from ottla.console.records.decoder import RecordDecoder, cut
from ottla.inspection.transaction_marks import marker_of
from ottla.records.record import TimestampType

MAX_ROW_CHARS: Final = 320
MAX_ROW_HEADERS: Final = 3
MAX_ROW_HEADER_CHARS: Final = 80


class Mark(StrEnum):
    """What readers of committed records skip, or do not see yet."""

    CONTROL = "control"
    ABORTED = "aborted"
    UNSTABLE = "unstable"
    """At or behind the last stable offset: of a transaction that is open, or behind one."""


@dataclass(frozen=True)
class FieldView:
    """A key or value; size and text of null are None and empty."""

    size_bytes: int | None
    format: Format
    text: str
    is_cut: bool
    is_json: bool
    problem: str | None
    schema: SchemaUse | None


@dataclass(frozen=True)
class HeaderView:
    """A header; a value that is no UTF-8 is shown with \\xNN."""

    name: str
    value: str | None
    size_bytes: int | None
    is_cut: bool


@dataclass(frozen=True)
class ControlView:
    """What a control record says."""

    outcome: str
    coordinator_epoch: int | None


@dataclass(frozen=True)
class RecordRow:
    """A record with the beginnings of its key, value and headers."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    """create: of the producer; append: of the broker."""
    key: FieldView
    value: FieldView
    headers: list[HeaderView]
    header_count: int
    mark: Mark | None
    control: ControlView | None
    producer_id: int | None
    """Of control records and aborted ones; the other records' batches tell it when a record is opened."""
    producer_epoch: int | None


class RecordRows:
    """Makes rows of records, in the formats of one search."""

    def __init__(
        self, decoder: RecordDecoder, key_format: WantedFormat, value_format: WantedFormat
    ) -> None:
        self._decoder = decoder
        self._key_format = key_format
        self._value_format = value_format

    async def row(self, record: ConsumerRecord, *, is_unstable: bool = False) -> RecordRow:
        """The row of a record."""
        mark, control, producer = marks_of(record)
        if mark is None and is_unstable:
            mark = Mark.UNSTABLE
        return RecordRow(
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            timestamp_type=timestamp_type_of(record),
            key=await self._view(record, is_key=True, is_control=control is not None),
            value=await self._view(record, is_key=False, is_control=control is not None),
            headers=[
                header_view(name, data, MAX_ROW_HEADER_CHARS)
                for name, data in record.headers[:MAX_ROW_HEADERS]
            ],
            header_count=len(record.headers),
            mark=mark,
            control=control,
            producer_id=None if producer is None else producer.producer_id,
            producer_epoch=None if producer is None else producer.producer_epoch,
        )

    async def text(self, record: ConsumerRecord, is_key: bool) -> str | None:
        """What filters look into."""
        wanted = self._key_format if is_key else self._value_format
        if isinstance(record, MarkedRecord) and record.is_control:
            return None if is_key else marker_of(record).outcome
        return await self._decoder.text(record, is_key, wanted)

    async def shown_text(self, record: ConsumerRecord, is_key: bool) -> str:
        """The whole text of a key or value, as it is shown; empty for null."""
        wanted = self._key_format if is_key else self._value_format
        if isinstance(record, MarkedRecord) and record.is_control:
            return ""
        return (await self._decoder.field(record, is_key, wanted)).text

    async def _view(self, record: ConsumerRecord, *, is_key: bool, is_control: bool) -> FieldView:
        data = record.key if is_key else record.value
        if is_control:
            decoded = Decoded(Format.HEX, (data or b"").hex(" "))
        else:
            wanted = self._key_format if is_key else self._value_format
            decoded = await self._decoder.field(record, is_key, wanted)
        return field_view(decoded, data, MAX_ROW_CHARS)


def field_view(decoded: Decoded, data: bytes | None, max_chars: int) -> FieldView:
    """The beginning of what was decoded."""
    text, is_cut = cut(decoded.text, max_chars)
    return FieldView(
        size_bytes=None if data is None else len(data),
        format=decoded.format,
        text=text,
        is_cut=is_cut,
        is_json=decoded.is_json,
        problem=decoded.problem,
        schema=decoded.schema,
    )


def header_view(name: str, data: bytes | None, max_chars: int) -> HeaderView:
    """A header with the beginning of its value."""
    shown_name, is_name_cut = cut(name, max_chars)
    if data is None:
        return HeaderView(shown_name, None, None, is_name_cut)
    # A character has at most four bytes: no more of the value is needed.
    begin = data[: 4 * max_chars + 4]
    value, is_cut = cut(begin.decode("utf-8", "backslashreplace"), max_chars)
    return HeaderView(shown_name, value, len(data), is_cut or is_name_cut or len(begin) < len(data))


def timestamp_type_of(record: ConsumerRecord) -> str:
    """Who has set a record's timestamp."""
    return "append" if record.timestamp_type == TimestampType.LOG_APPEND_TIME else "create"


def marks_of(
    record: ConsumerRecord,
) -> tuple[Mark | None, ControlView | None, MarkedRecord | None]:
    """What marks a record, what it says if it is a control record, and the record if its producer is known."""
    if not isinstance(record, MarkedRecord):
        return None, None, None
    if record.is_control:
        outcome, coordinator_epoch = marker_of(record)
        return Mark.CONTROL, ControlView(outcome, coordinator_epoch), record
    return Mark.ABORTED, None, record
