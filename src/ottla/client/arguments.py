"""What callers may write for topics, partitions and offsets, made into what is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from ottla.client.model import OffsetAndMetadata
from ottla.model import TopicPartition

Partition: TypeAlias = TopicPartition | tuple[str, int]
"""A partition; a plain tuple of topic and number will do."""

PartitionKey = TypeVar("PartitionKey", bound=tuple[str, int])
"""The same as the key of a mapping, whose keys have to be all of the one kind or of the other for type checkers."""


def partition_of(partition: Partition) -> TopicPartition:
    """The partition that is meant."""
    topic: Any
    number: Any
    try:
        topic, number = partition
    except (TypeError, ValueError):
        topic = number = None
    if not isinstance(topic, str) or not isinstance(number, int):
        raise TypeError(f"{partition!r} is no partition: write (topic, number)")
    return TopicPartition(topic, number)


def partitions_of(partitions: Iterable[Partition]) -> list[TopicPartition]:
    """The partitions that are meant."""
    return [partition_of(partition) for partition in partitions]


def offsets_of(
    offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """The offsets that are meant; None stays None."""
    return None if offsets is None else positions_of(offsets)


def positions_of(
    offsets: Mapping[PartitionKey, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets that are meant."""
    return {
        (wanted := partition_of(partition)): _position_of(wanted, to)
        for partition, to in offsets.items()
    }


def _position_of(partition: TopicPartition, to: int | OffsetAndMetadata) -> OffsetAndMetadata:
    if isinstance(to, OffsetAndMetadata):
        return to
    try:
        return OffsetAndMetadata(to)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{partition}: {error}") from None


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
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"a timeout is a number of seconds, not {timeout!r}")
    return timeout


def times_of(timestamps: Mapping[PartitionKey, int]) -> dict[TopicPartition, int]:
    """Times in milliseconds since 1970 by partition."""
    wanted = {partition_of(partition): at for partition, at in timestamps.items()}
    for partition, at in wanted.items():
        if isinstance(at, bool) or not isinstance(at, int):
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
