"""JSON objects of numbers by topic and partition, as in Spark's options and offset logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ottla.errors import ConfigError
from ottla.model import TopicPartition

MOST: Final = (1 << 63) - 1
MOST_PARTITIONS: Final = 1 << 31


def nest_by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """{topic: {partition: number}}, always in the same order: Spark compares offsets as text."""
    found: dict[str, dict[str, int]] = {}
    for partition in sorted(numbers):
        found.setdefault(partition.topic, {})[str(partition.partition)] = numbers[partition]
    return found


def flatten_by_topic(numbers: object, least: int = 0) -> dict[TopicPartition, int]:
    """The inverse of `nest_by_topic`; a ValueError says what is wrong with it."""
    if not isinstance(numbers, dict):
        raise ValueError("it is not an object of topics")
    found: dict[TopicPartition, int] = {}
    for topic, by_partition in numbers.items():
        if not isinstance(by_partition, dict):
            raise ValueError(f"topic {topic!r} has no object of partitions")
        for partition, number in by_partition.items():
            if not isinstance(number, int) or isinstance(number, bool) or number > MOST:
                raise ValueError(f"{number!r} of {topic}-{partition} is not a 64-bit number")
            if number < least:
                raise ValueError(f"{number} of {topic}-{partition} is below {least}")
            found[TopicPartition(topic, _partition(partition))] = number
    return found


def read_numbers(option: str, text: str, least: int) -> dict[TopicPartition, int]:
    """The numbers in the value of an option."""
    example = '{"orders":{"0":23,"1":42}}'
    try:
        found = flatten_by_topic(json.loads(text), least)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{option}={text!r} is not valid: it must be like {example} ({error})"
        ) from error
    if not found:
        raise ConfigError(f"{option}={text!r} names no partition: write for instance {example}")
    return found


def read_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The partitions in the value of an option, sorted, each of them once."""
    example = '{"orders":[0,1]}'
    found: set[TopicPartition] = set()
    try:
        topics = json.loads(text)
        if not isinstance(topics, dict):
            raise ValueError("it is not an object of topics")
        for topic, partitions in topics.items():
            if not isinstance(partitions, list):
                raise ValueError(f"topic {topic!r} has no list of partitions")
            found.update(TopicPartition(topic, _partition(each)) for each in partitions)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{option}={text!r} is not valid: it must be like {example} ({error})"
        ) from error
    if not found:
        raise ConfigError(f"{option}={text!r} names no partition: write for instance {example}")
    return tuple(sorted(found))


def _partition(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise ValueError(f"{number!r} is not a partition number")
    # int() would also take spaces, underscores and digits of other scripts.
    if isinstance(number, str) and not (number.isascii() and number.isdigit()):
        raise ValueError(f"{number!r} is not a partition number")
    if not 0 <= int(number) < MOST_PARTITIONS:
        raise ValueError(f"{number!r} is not a partition number")
    return int(number)
