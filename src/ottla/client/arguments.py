"""Arguments of the public methods: checked, and converted to TopicPartition, OffsetAndMetadata …"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from ottla.client.model import OffsetAndMetadata
from ottla.model import TopicPartition

Partition: TypeAlias = TopicPartition | tuple[str, int]
"""A partition; a plain tuple of topic and number is accepted."""

PartitionKey = TypeVar("PartitionKey", bound=tuple[str, int])
"""A partition as the key of a mapping; for type checkers all keys are TopicPartitions, or all plain tuples."""


def is_number(thing: object) -> bool:
    """Whether it is an int, and not a bool."""
    return isinstance(thing, int) and not isinstance(thing, bool)


def check_record(topic: object, partition: object, timestamp_ms: object) -> None:
    """Check topic, partition and timestamp of a record."""
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
    """Check that on_delivery can be called."""
    if on_delivery is not None and not callable(on_delivery):
        raise TypeError(f"on_delivery is called with the outcome, and {on_delivery!r} cannot be")


def sequence_of(things: Iterable[Any], what: str) -> Sequence[Any]:
    """The values or keys of many records; a single str or bytes is an error."""
    if isinstance(things, str | bytes | bytearray | memoryview) or not isinstance(things, Iterable):
        raise TypeError(f"{what} are a list, with one for each record, not {type(things).__name__}")
    return things if isinstance(things, Sequence) else list(things)


def partition_of(partition: Partition) -> TopicPartition:
    """The partition as a TopicPartition."""
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
    """The partitions as TopicPartitions."""
    given: Any = partitions
    is_one = isinstance(given, tuple) and len(given) == 2 and is_number(given[1])
    if is_one or isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{partitions!r} is no list of partitions: write [(topic, number), ...]")
    return [partition_of(partition) for partition in partitions]


def position_of(partition: Partition, to: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """An offset as OffsetAndMetadata."""
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
    """Offsets by partition as OffsetAndMetadata."""
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
    """Like `positions_of`; None stays None."""
    return None if offsets is None else positions_of(offsets)


def pattern_of(topics: Iterable[str] | str | re.Pattern[str]) -> re.Pattern[str] | None:
    """The pattern if topics are given as one: compiled, or text that begins with ^."""
    if isinstance(topics, re.Pattern):
        return topics
    if isinstance(topics, str) and topics.startswith("^"):
        try:
            return re.compile(topics)
        except re.error as error:
            raise ValueError(f"{topics!r} is no regular expression: {error}") from error
    return None


def seconds_of(timeout: float) -> float:
    """A timeout in seconds; TypeError if it is no number."""
    if not is_number(timeout) and not isinstance(timeout, float):
        raise TypeError(f"a timeout is a number of seconds, not {timeout!r}")
    return timeout


def times_of(timestamps: Mapping[PartitionKey, int]) -> dict[TopicPartition, int]:
    """Timestamps in milliseconds by partition."""
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
    """A list of topic names."""
    if isinstance(topics, str | re.Pattern):
        raise ValueError(
            f"{topics!r} is neither a list nor a pattern: write [{topics!r}], or ^ in front"
        )
    names = list(topics)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{name!r} is no name of a topic")
    return names
