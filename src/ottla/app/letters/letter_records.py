"""The records that a failed one becomes: a hop into a retry topic, a dead letter, a replay."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

from ottla.app.delivery.unit import OutgoingRecord
from ottla.app.errors import BatchItemError
from ottla.app.letters import header_names as names
from ottla.app.letters.history import History, original_record, read_history
from ottla.app.letters.topic_names import dead_letter_topic, retry_number, retry_topic
from ottla.records.record import TimestampType

if TYPE_CHECKING:
    from ottla.app.declarations.listener_spec import RawRecord
    from ottla.client.model import Headers

MAX_MESSAGE_BYTES: Final = 1024
MAX_TRACEBACK_BYTES: Final = 8 * 1024
MAX_HISTORY_BYTES: Final = 16 * 1024
"""By how much the headers can make a record larger; retry and dead-letter topics take records that much larger."""

_CUT: Final = "…"
_TIMESTAMP_TYPES: Final = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def hop(
    record: RawRecord,
    error: BaseException,
    *,
    group: str,
    listener: str,
    attempt: int,
    due_ms: int,
    now_ms: int,
    first_failed_ms: int | None = None,
    partition_count: int | None = None,
) -> OutgoingRecord:
    """The record for the retry topic after its attempt `attempt` failed, counted from 1.

    `record` may come from the source topic or from an earlier retry topic. With the number of partitions of the retry
    topic, a record whose partition it lacks is placed by its key.
    """
    original, before = trace_back(record, group)
    history = (
        *_exception_headers(names.HOP, error),
        *_origin_headers(names.HOP, original, group),
        (names.FIRST_TIMESTAMP, names.big_integer(original.timestamp_ms)),
        (names.ATTEMPTS, names.int32(attempt + 1)),
        (names.DUE_TIME, names.big_integer(due_ms)),
        *_own_headers(listener, before, first_failed_ms, now_ms),
    )
    return OutgoingRecord(
        topic=retry_topic(original.topic, group, attempt),
        value=record.value,
        key=record.key,
        partition=_partition(original.partition, partition_count),
        headers=original.headers + history,
    )


def dead_letter(
    record: RawRecord,
    error: BaseException,
    *,
    group: str,
    listener: str,
    attempt: int,
    now_ms: int,
    first_failed_ms: int | None = None,
    partition_count: int | None = None,
) -> OutgoingRecord:
    """The record for the dead-letter topic after `attempt` attempts; `record` as for `hop`."""
    original, before = trace_back(record, group)
    history = (
        *_exception_headers(names.DEAD_LETTER, error),
        *_origin_headers(names.DEAD_LETTER, original, group),
        (names.ATTEMPTS, names.int32(attempt)),
        *_own_headers(listener, before, first_failed_ms, now_ms),
    )
    return OutgoingRecord(
        topic=dead_letter_topic(original.topic, group),
        value=record.value,
        key=record.key,
        partition=_partition(original.partition, partition_count),
        headers=original.headers + history,
    )


def replay(letter: RawRecord, *, partition_count: int | None = None) -> OutgoingRecord:
    """The record that brings a dead letter back to its source topic, with its own headers; raises without a history.

    It gets a new timestamp: with the old one, the retention of the source topic could delete it before it is read.
    """
    original = _original_of(letter)
    return OutgoingRecord(
        topic=original.topic,
        value=original.value,
        key=original.key,
        partition=_partition(original.partition, partition_count),
        headers=original.headers,
    )


def replay_for_group(
    letter: RawRecord, *, group: str, now_ms: int, partition_count: int | None = None
) -> OutgoingRecord:
    """The record that brings a dead letter back to its group alone, through its first retry topic, due at once."""
    original = _original_of(letter)
    history = (
        *_origin_headers(names.HOP, original, group),
        (names.ATTEMPTS, names.int32(1)),
        (names.DUE_TIME, names.big_integer(now_ms)),
    )
    return OutgoingRecord(
        topic=retry_topic(original.topic, group, 1),
        value=original.value,
        key=original.key,
        partition=_partition(original.partition, partition_count),
        headers=original.headers + history,
    )


def _original_of(letter: RawRecord) -> RawRecord:
    original = original_record(letter)
    if original is letter:
        raise ValueError(
            f"{letter.topic}-{letter.partition} offset {letter.offset} is no dead letter: no headers name its "
            "original topic, partition and offset"
        )
    return original


def is_of_group(history: History, topic: str, group: str) -> bool:
    """Whether a record with this history, read from retry topic `topic`, was put there by `group`.

    Names can coincide: `a.b.c.retry.1` belongs to group `b.c` of topic `a` and to group `c` of topic `a.b`. Records of
    the other group are its own business: finish them without a call.
    """
    number = retry_number(topic)
    if number is None or history.group not in (None, group):
        return False
    return retry_topic(history.topic, group, number) == topic


def trace_back(record: RawRecord, group: str) -> tuple[RawRecord, History | None]:
    """The record as first read, and its history if it comes from a retry topic of the group.

    A record of any other topic may have such headers too, as a dead letter that another listener reads: those are
    replaced, and the history starts with this record.
    """
    history = None if retry_number(record.topic) is None else read_history(record)
    if history is not None and is_of_group(history, record.topic, group):
        return original_record(record), history
    return record._replace(headers=names.without_history(record.headers)), None


def _origin_headers(prefix: str, original: RawRecord, group: str) -> Headers:
    return (
        (prefix + names.ORIGINAL_TOPIC, original.topic.encode()),
        (prefix + names.ORIGINAL_PARTITION, names.int32(original.partition)),
        (prefix + names.ORIGINAL_OFFSET, names.int64(original.offset)),
        (prefix + names.ORIGINAL_TIMESTAMP, names.int64(original.timestamp_ms)),
        (
            prefix + names.ORIGINAL_TIMESTAMP_TYPE,
            _TIMESTAMP_TYPES[original.timestamp_type].encode(),
        ),
        (prefix + names.ORIGINAL_GROUP, group.encode()),
    )


def _own_headers(
    listener: str, before: History | None, first_failed_ms: int | None, now_ms: int
) -> Headers:
    first = before.first_failed_ms if before is not None else first_failed_ms
    return (
        (names.LISTENER, listener.encode()),
        (names.FIRST_FAILED, names.int64(now_ms if first is None else first)),
        (names.LAST_FAILED, names.int64(now_ms)),
    )


def _exception_headers(prefix: str, error: BaseException) -> Headers:
    if isinstance(error, BatchItemError) and error.__cause__ is not None:
        error = error.__cause__  # it only says which record of the batch failed
    cause = error.__cause__ or error.__context__
    headers = [(prefix + names.EXCEPTION_CLASS, _class_name(error))]
    if cause is not None:
        headers.append((prefix + names.EXCEPTION_CAUSE_CLASS, _class_name(cause)))
    headers += [
        (prefix + names.EXCEPTION_MESSAGE, _start_of(_message(error), MAX_MESSAGE_BYTES)),
        (
            prefix + names.EXCEPTION_TRACEBACK,
            _end_of("".join(traceback.format_exception(error)), MAX_TRACEBACK_BYTES),
        ),
    ]
    return tuple(headers)


def _class_name(error: BaseException) -> bytes:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return _start_of(f"{module}{kind.__qualname__}", MAX_MESSAGE_BYTES)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"the exception's message could not be made: {type(failure).__name__}"


def _start_of(text: str, max_bytes: int) -> bytes:
    whole = text.encode("utf-8", "backslashreplace")
    if len(whole) <= max_bytes:
        return whole
    kept = whole[: max_bytes - len(_CUT.encode())].decode("utf-8", "ignore")
    return f"{kept}{_CUT}".encode()


def _end_of(text: str, max_bytes: int) -> bytes:
    """The end of a text, which in a traceback says the most."""
    whole = text.encode("utf-8", "backslashreplace")
    if len(whole) <= max_bytes:
        return whole
    kept = whole[-(max_bytes - len(_CUT.encode())) :].decode("utf-8", "ignore")
    return f"{_CUT}{kept}".encode()


def _partition(partition: int, partition_count: int | None) -> int | None:
    return partition if partition_count is None or partition < partition_count else None
