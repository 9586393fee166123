"""The last records of a partition, up to a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.model import ConsumerRecord
from ottla.model import TopicPartition

POLL_SECONDS: Final = 1.0
NOTHING_KNOWN: Final[Mapping[TopicPartition, int]] = MappingProxyType({})

AnyRecord = ConsumerRecord[Any, Any]


class LogTail(NamedTuple):
    """What was read of a partition's end."""

    records: list[AnyRecord]
    is_from_start: bool
    """Whether nothing of the log lies before it."""
    is_to_end: bool
    """Whether the end was reached in time."""
    skipped_count: int = 0
    """How many offsets lie between what was read earlier and what was read now."""


async def read_tails(
    consumer: Consumer[Any, Any],
    partitions: Collection[TopicPartition],
    *,
    max_offsets: int,
    limit_seconds: float,
    wanted: Callable[[AnyRecord], bool] = lambda record: True,
    known: Mapping[TopicPartition, int] = NOTHING_KNOWN,
) -> dict[TopicPartition, LogTail]:
    """The wanted ones of the last `max_offsets` records of each partition; the consumer is left at their ends.

    What is before the offsets that are `known` was read earlier, and is left out. The partitions have to have leaders.
    """
    deadline = time.monotonic() + limit_seconds
    consumer.assign(partitions)
    starts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    skipped: dict[TopicPartition, int] = {}
    for each in partitions:
        from_offset = max(starts[each], ends[each] - max_offsets)
        if from_offset < known.get(each, 0) <= ends[each]:
            from_offset = known[each]
        if each in known:
            skipped[each] = max(0, from_offset - known[each])
        consumer.seek(each, from_offset)
    found: dict[TopicPartition, list[AnyRecord]] = {each: [] for each in partitions}
    left = {each for each in partitions if starts[each] < ends[each]}
    while left and time.monotonic() < deadline:
        for record in await consumer.poll(POLL_SECONDS):
            if wanted(record):
                found[TopicPartition(record.topic, record.partition)].append(record)
        left = {each for each in left if await consumer.position(each) < ends[each]}
    return {
        each: LogTail(
            found[each],
            ends[each] - starts[each] <= max_offsets,
            is_to_end=each not in left,
            skipped_count=skipped.get(each, 0),
        )
        for each in partitions
    }
