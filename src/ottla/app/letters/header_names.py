"""The headers of hops and dead letters: Spring Kafka's names and encodings, and a few of our own (ADR 0042)."""

from __future__ import annotations

import re
import struct
from typing import Final

from ottla.client.model import Headers

# Spring writes `kafka_original-…` and `kafka_exception-…` on records in retry topics, `kafka_dlt-…` on dead letters.
HOP: Final = "kafka_"
DEAD_LETTER: Final = "kafka_dlt-"

ORIGINAL_TOPIC: Final = "original-topic"
ORIGINAL_PARTITION: Final = "original-partition"
ORIGINAL_OFFSET: Final = "original-offset"
ORIGINAL_TIMESTAMP: Final = "original-timestamp"
ORIGINAL_TIMESTAMP_TYPE: Final = "original-timestamp-type"
ORIGINAL_GROUP: Final = "original-consumer-group"
EXCEPTION_CLASS: Final = "exception-fqcn"
EXCEPTION_CAUSE_CLASS: Final = "exception-cause-fqcn"
EXCEPTION_MESSAGE: Final = "exception-message"
EXCEPTION_TRACEBACK: Final = "exception-stacktrace"

ATTEMPTS: Final = "retry_topic-attempts"
DUE_TIME: Final = "retry_topic-backoff-timestamp"
FIRST_TIMESTAMP: Final = "retry_topic-original-timestamp"

LISTENER: Final = "ottla_listener"
FIRST_FAILED: Final = "ottla_first-failed-timestamp"
LAST_FAILED: Final = "ottla_last-failed-timestamp"

# Spring has two more sets, for keys and values that could not be deserialized; a letter of Spring's may have them.
_HISTORY: Final = re.compile(
    r"kafka_(?:dlt-)?(?:original-(?:topic|partition|offset|timestamp|timestamp-type|consumer-group)"
    r"|(?:key-)?exception-(?:fqcn|cause-fqcn|message|stacktrace))"
    r"|retry_topic-(?:attempts|backoff-timestamp|original-timestamp)"
    r"|ottla_(?:listener|first-failed-timestamp|last-failed-timestamp)"
)


def without_history(headers: Headers) -> Headers:
    """The user's own headers, in their order."""
    return tuple(header for header in headers if _HISTORY.fullmatch(header[0]) is None)


def int32(number: int) -> bytes:
    """Java's `ByteBuffer.putInt`."""
    return struct.pack(">i", number)


def int64(number: int) -> bytes:
    """Java's `ByteBuffer.putLong`."""
    return struct.pack(">q", number)


def big_integer(number: int) -> bytes:
    """Java's `BigInteger.toByteArray`: as few bytes as the number and its sign need."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def read_integer(value: bytes | None) -> int | None:
    """An integer of any of the three encodings; None for anything else."""
    if value is None or not 1 <= len(value) <= 8:
        return None
    return int.from_bytes(value, "big", signed=True)


def read_text(value: bytes | None) -> str | None:
    """A header's text; bytes that are not UTF-8 are shown as escapes."""
    return None if value is None else value.decode("utf-8", "backslashreplace")
