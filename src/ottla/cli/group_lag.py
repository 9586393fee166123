"""How many records a group has yet to read.

The difference of offsets says more than that: markers of transactions have offsets, and so had records that compaction
removed. Both show only in the log itself, so its part behind the committed offset is read, up to a limit: a group that
is far behind is so whatever the markers are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.cli.connecting import consumer_of
from ottla.cli.failing import line_of
from ottla.cli.output import say
from ottla.errors import KafkaError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer

LOOKED_AT_RECORDS: Final = 10_000
_FETCH_BYTES: Final = 1 << 18
_PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.5


class Span(NamedTuple):
    """What is behind a committed offset."""

    start_offset: int
    end_offset: int


def lags_of(
    arguments: argparse.Namespace, spans: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, int]:
    """The records in each span; offsets, where they cannot be read."""
    lags = {each: span.end_offset - span.start_offset for each, span in spans.items()}
    behind = {each: span for each, span in spans.items() if lags[each] > 0}
    if not behind:
        return lags
    options: dict[str, object] = {
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "auto_offset_reset": "earliest",
        "isolation_level": arguments.isolation,
        "max_poll_records": LOOKED_AT_RECORDS,
        "max_partition_fetch_bytes": _FETCH_BYTES,
    }
    try:
        with consumer_of(arguments, **options) as consumer:
            return lags | _counted(consumer, behind)
    except KafkaError as error:
        say(f"ottla: records could not be counted, LAG counts offsets: {line_of(error)}")
        return lags


def _counted(consumer: Consumer, spans: Mapping[TopicPartition, Span]) -> dict[TopicPartition, int]:
    """The records that were seen, and the offsets behind the last that was looked at."""
    first = consumer.beginning_offsets(spans)
    positions = {each: max(span.start_offset, first[each]) for each, span in spans.items()}
    counts = dict.fromkeys(spans, 0)
    unread = {each for each, span in spans.items() if positions[each] < span.end_offset}
    consumer.assign(unread)
    for partition in unread:
        consumer.seek(partition, positions[partition])
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while unread and time.monotonic() < deadline:
        records = consumer.poll(_POLL_SECONDS)
        for partition in records.partitions():
            end = spans[partition].end_offset
            counts[partition] += sum(each.offset < end for each in records.records(partition))
        for partition, next_offset in records.next_offsets.items():
            positions[partition] = next_offset.offset
            is_at_end = next_offset.offset >= spans[partition].end_offset
            if is_at_end or counts[partition] >= LOOKED_AT_RECORDS:
                unread.discard(partition)
                consumer.pause([partition])
    return {
        each: counts[each] + max(0, span.end_offset - positions[each])
        for each, span in spans.items()
    }
