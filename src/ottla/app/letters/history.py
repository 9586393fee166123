"""What a record in a retry topic or dead-letter topic has behind it, as its headers tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.app.letters import header_names as names
from ottla.records.record import TimestampType

if TYPE_CHECKING:
    from ottla.app.declarations.listener_spec import RawRecord


@dataclass(frozen=True, kw_only=True)
class History:
    """Where a record comes from, and how its handler failed."""

    topic: str
    """The topic from which the listener first read the record."""
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    group: str | None
    listener: str | None
    attempts: int
    """How many attempts have failed."""
    error: str | None
    """The class of the last exception, with its module."""
    cause: str | None
    """The class of the exception behind it, if there is one."""
    message: str | None
    traceback: str | None
    first_failed_ms: int | None
    last_failed_ms: int | None
    due_ms: int | None
    """When the next attempt is due; None for a dead letter."""

    @property
    def is_dead_letter(self) -> bool:
        """Whether no further attempt is planned."""
        return self.due_ms is None


def read_history(record: RawRecord) -> History | None:
    """The history in the headers of a record; None if it has none, as a record that never failed."""
    last = dict(record.headers)  # the last header of a name counts, as with Kafka's lastHeader

    def header(name: str) -> bytes | None:
        found = last.get(names.DEAD_LETTER + name)
        return last.get(names.HOP + name) if found is None else found

    topic = names.read_text(header(names.ORIGINAL_TOPIC))
    partition = names.read_integer(header(names.ORIGINAL_PARTITION))
    offset = names.read_integer(header(names.ORIGINAL_OFFSET))
    if topic is None or partition is None or offset is None:
        return None
    timestamp_ms = names.read_integer(header(names.ORIGINAL_TIMESTAMP))
    timestamp_type = names.read_text(header(names.ORIGINAL_TIMESTAMP_TYPE))
    due_ms = names.read_integer(last.get(names.DUE_TIME))
    # On a hop Spring writes the number of the attempt to come.
    attempts = names.read_integer(last.get(names.ATTEMPTS))
    failed = 1 if attempts is None else attempts - (due_ms is not None)
    return History(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=record.timestamp_ms if timestamp_ms is None else timestamp_ms,
        timestamp_type=_timestamp_type(timestamp_type),
        group=names.read_text(header(names.ORIGINAL_GROUP)),
        listener=names.read_text(last.get(names.LISTENER)),
        attempts=max(0, failed),
        error=names.read_text(header(names.EXCEPTION_CLASS)),
        cause=names.read_text(header(names.EXCEPTION_CAUSE_CLASS)),
        message=names.read_text(header(names.EXCEPTION_MESSAGE)),
        traceback=names.read_text(header(names.EXCEPTION_TRACEBACK)),
        first_failed_ms=names.read_integer(last.get(names.FIRST_FAILED)),
        last_failed_ms=names.read_integer(last.get(names.LAST_FAILED)),
        due_ms=due_ms,
    )


def original_record(record: RawRecord) -> RawRecord:
    """The record as its listener first read it: its place, timestamp and headers; the same record without a history."""
    history = read_history(record)
    if history is None:
        return record
    return record._replace(
        topic=history.topic,
        partition=history.partition,
        offset=history.offset,
        timestamp_ms=history.timestamp_ms,
        timestamp_type=history.timestamp_type,
        headers=names.without_history(record.headers),
        leader_epoch=None,
    )


def _timestamp_type(text: str | None) -> TimestampType:
    return TimestampType.LOG_APPEND_TIME if text == "LogAppendTime" else TimestampType.CREATE_TIME
