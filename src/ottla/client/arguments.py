"""What callers may write for topics, partitions and offsets, made into what is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from ottla.client.model import OffsetAndMetadata
from ottla.model import TopicPartition

Partition: TypeAlias = TopicPartition | tuple[str, int]
"""A partition; a plain tuple of topic and number will do."""

PartitionKey = TypeVar("PartitionKey", bound=tuple[str, int])
"""The same as the key of a mapping, whose keys have to be all of the one kind or of the other for type checkers."""


def is_number(thing: object) -> bool:
    """Whether it is an int; True and False are none, though Python counts them in."""
    return isinstance(thing, int) and not isinstance(thing, bool)


def check_record(topic: object, partition: object, timestamp_ms: object) -> None:
    """Raise what is wrong with where and when a record is to go."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic is named by a str, not {topic!r}")
    if partition is not None:
        if not isinstance(partition, int) or isinstance(partition, bool):
            raise TypeError(f"a partition is an int, not {partition!r}")
        if partition < 0:
            raise ValueError(f"a partition is a number from 0 on, not {partition!r}")
    if timestamp_ms is not None:
        if not isinstance(timestamp_ms, int) or isinstance(timestamp_ms, bool):
            raise TypeError(f"a timestamp is an int of milliseconds, not {timestamp_ms!r}")
        if timestamp_ms < 0:
            raise ValueError(f"a timestamp is not negative, as {timestamp_ms} is")


def check_callback(on_delivery: object) -> None:
    """Raise where nobody could be told of the outcome."""
    if on_delivery is not None and not callable(on_delivery):
        raise TypeError(f"on_delivery is called with the outcome, and {on_delivery!r} cannot be")


def sequence_of(things: Iterable[Any], what: str) -> Sequence[Any]:
    """The values or keys of many records; one alone is a mistake, and its bytes or characters are not meant."""
    if isinstance(things, str | bytes | bytearray | memoryview) or not isinstance(things, Iterable):
        raise TypeError(f"{what} are a list, with one for each record, not {type(things).__name__}")
    return things if isinstance(things, Sequence) else list(things)


def partition_of(partition: Partition) -> TopicPartition:
    """The partition that is meant."""
    topic: Any
    number: Any
    try:
        topic, number = partition
    except (TypeError, ValueError):
        topic = number = None
    if not isinstance(topic, str) or not is_number(number):
        raise TypeError(f"{partition!r} is no partition: write (topic, number)")
    if not topic.strip():
        raise ValueError(f"{topic!r} is no name of a topic")
    if number < 0:
        raise ValueError(f"a partition is a number from 0 on, not {number}")
    return TopicPartition(topic, number)


def partitions_of(partitions: Iterable[Partition]) -> list[TopicPartition]:
    """The partitions that are meant."""
    given: Any = partitions
    is_one = isinstance(given, tuple) and len(given) == 2 and is_number(given[1])
    if is_one or isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{partitions!r} is no list of partitions: write [(topic, number), ...]")
    return [partition_of(partition) for partition in partitions]


def position_of(partition: Partition, to: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """The offset of a partition that is meant, with its metadata."""
    if isinstance(to, OffsetAndMetadata):
        return to
    if not is_number(to):
        raise TypeError(
            f"the offset of {partition} is an int or an OffsetAndMetadata of one, not {to!r}"
        )
    if to < 0:
        raise ValueError(f"the offset of {partition} is negative: {to}")
    return OffsetAndMetadata(to)


def positions_of(
    offsets: Mapping[PartitionKey, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets by partition that are meant."""
    if not isinstance(offsets, Mapping):
        raise TypeError(f"{offsets!r} has no offsets: write {{(topic, number): offset, ...}}")
    read = {}
    for partition, to in offsets.items():
        key = partition_of(partition)
        read[key] = position_of(key, to)
    return read


def offsets_of(
    offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """The offsets that are meant; None stays None."""
    return None if offsets is None else positions_of(offsets)


def pattern_of(topics: Iterable[str] | str | re.Pattern[str]) -> re.Pattern[str] | None:
    """The pattern, if that is what was given: compiled, or text that begins with ^."""
    if isinstance(topics, re.Pattern):
        return topics
    if isinstance(topics, str) and topics.startswith("^"):
        try:
            return re.compile(topics)
        except re.error as error:
            raise ValueError(f"{topics!r} is no regular expression: {error}") from error
    return None


def seconds_of(timeout: float) -> float:
    """A time limit in seconds, if it is one."""
    if not is_number(timeout) and not isinstance(timeout, float):
        raise TypeError(f"a timeout is a number of seconds, not {timeout!r}")
    return timeout


def times_of(timestamps: Mapping[PartitionKey, int]) -> dict[TopicPartition, int]:
    """Times in milliseconds since 1970 by partition."""
    wanted = {partition_of(partition): at for partition, at in timestamps.items()}
    for partition, at in wanted.items():
        if not is_number(at):
            raise TypeError(
                f"the time of {partition} is a whole number of milliseconds, not {at!r}: "
                "int(time.time() * 1000) is now"
            )
        if at < 0:
            raise ValueError(f"the time of {partition} is negative: {at}")
    return wanted


def topic_names(topics: Iterable[Any] | str | re.Pattern[str]) -> list[str]:
    """The topics of a list."""
    if isinstance(topics, str | re.Pattern):
        raise ValueError(
            f"{topics!r} is neither a list nor a pattern: write [{topics!r}], or ^ in front"
        )
    names = list(topics)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{name!r} is no name of a topic")
    return names
