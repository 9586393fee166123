"""The last records of a partition, up to a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.model import ConsumerRecord
from ottla.model import TopicPartition

POLL_SECONDS: Final = 1.0

AnyRecord = ConsumerRecord[Any, Any]


class LogTail(NamedTuple):
    """What was read of a partition's end."""

    records: list[AnyRecord]
    is_from_start: bool
    """Whether nothing of the log lies before it."""
    is_to_end: bool
    """Whether the end was reached in time."""


async def read_tails(
    consumer: Consumer[Any, Any],
    partitions: Collection[TopicPartition],
    *,
    max_offsets: int,
    limit_seconds: float,
    wanted: Callable[[AnyRecord], bool] = lambda record: True,
) -> dict[TopicPartition, LogTail]:
    """The wanted ones of the last `max_offsets` records of each partition; the consumer is left at their ends."""
    deadline = time.monotonic() + limit_seconds
    consumer.assign(partitions)
    starts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    for each in partitions:
        consumer.seek(each, max(starts[each], ends[each] - max_offsets))
    found: dict[TopicPartition, list[AnyRecord]] = {each: [] for each in partitions}
    left = {each for each in partitions if starts[each] < ends[each]}
    while left and time.monotonic() < deadline:
        for record in await consumer.poll(POLL_SECONDS):
            if wanted(record):
                found[TopicPartition(record.topic, record.partition)].append(record)
        left = {each for each in left if await consumer.position(each) < ends[each]}
    return {
        each: LogTail(
            found[each], ends[each] - starts[each] <= max_offsets, is_to_end=each not in left
        )
        for each in partitions
    }
