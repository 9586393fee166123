"""How many records a group has yet to read.

The difference of offsets is larger than that: markers of transactions have offsets, and so do records that compaction
removed. To leave them out, the log after the committed offset is read, up to a limit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import consumer_of
from ottla.cli.errors import line_of
from ottla.cli.terminal.output import say
from ottla.errors import KafkaError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer

LOOKED_AT_RECORDS: Final = 10_000
_FETCH_BYTES: Final = 1 << 18
_PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.5


class Span(NamedTuple):
    """The offsets of a partition after a committed offset."""

    start_offset: int
    end_offset: int


class LagCounter:
    """Counts records with one consumer for all groups, which is created when the first group has a lag."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._consumer: Consumer | None = None
        self._is_refused = False

    def lags(self, spans: Mapping[TopicPartition, Span]) -> dict[TopicPartition, int]:
        """The records in each span; the number of offsets where the log cannot be read."""
        lags = {each: span.end_offset - span.start_offset for each, span in spans.items()}
        behind = {each: span for each, span in spans.items() if lags[each] > 0}
        if behind and not self._is_refused:
            try:
                if self._consumer is None:
                    self._consumer = self._make()
                return lags | _counted(self._consumer, behind)
            except KafkaError as error:
                # Report it once: the next group would fail the same way.
                self._is_refused = True
                say(f"ottla: records could not be read, LAG counts offsets: {line_of(error)}")
        return lags

    def _make(self) -> Consumer:
        return consumer_of(
            self._arguments,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            auto_offset_reset="earliest",
            isolation_level=self._arguments.isolation,
            max_poll_records=LOOKED_AT_RECORDS,
            max_partition_fetch_bytes=_FETCH_BYTES,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _counted(consumer: Consumer, spans: Mapping[TopicPartition, Span]) -> dict[TopicPartition, int]:
    """The number of records that were seen, and of offsets after the last one looked at."""
    first = consumer.beginning_offsets(spans)
    positions = {each: max(span.start_offset, first[each]) for each, span in spans.items()}
    counts = dict.fromkeys(spans, 0)
    unread = {each for each, span in spans.items() if positions[each] < span.end_offset}
    consumer.assign(unread)
    # The group before may have read some of them to the end.
    consumer.resume(unread)
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
