"""How many records a group has yet to read.

The difference of offsets is larger than that: markers of transactions have offsets, and so do records that compaction
removed. To leave them out, the log after the committed offset is read, up to a limit.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ottla.errors import KafkaError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer

LOOKED_AT_RECORDS: Final = 10_000
READER_OPTIONS: Final[Mapping[str, object]] = {
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
    "auto_offset_reset": "earliest",
    "max_poll_records": LOOKED_AT_RECORDS,
    "max_partition_fetch_bytes": 1 << 18,
}
"""The options of a consumer that counts; its isolation level is that of the group's consumers."""
_PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.5


class Span(NamedTuple):
    """The offsets of a partition after a committed offset."""

    start_offset: int
    end_offset: int


class ReadStretch:
    """A stretch of a partition's log that was read: which of its offsets have no record.

    Offsets that were not read count as records.
    """

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        # The gaps by their start and end, in order.
        self._starts = array("q")
        self._ends = array("q")

    @property
    def gap_count(self) -> int:
        """How much memory it takes."""
        return len(self._starts)

    def extend(self, offsets: Iterable[int], next_offset: int) -> None:
        """Add the offsets of the records up to the next offset to read."""
        at = self.end_offset
        for offset in offsets:
            if offset > at:
                self._add_gap(at, offset)
            at = offset + 1
        if next_offset > at:
            self._add_gap(at, next_offset)
        self.end_offset = max(at, next_offset)

    def _add_gap(self, start: int, end: int) -> None:
        if self._ends and self._ends[-1] == start:
            self._ends[-1] = end
            return
        self._starts.append(start)
        self._ends.append(end)

    def forget_before(self, offset: int) -> None:
        """Drop what is below an offset."""
        if offset <= self.start_offset:
            return
        done = bisect_right(self._ends, offset)
        del self._starts[:done], self._ends[:done]
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)

    def record_count(self, span: Span) -> int:
        """The records in a span."""
        start, end = span
        if end <= start:
            return 0
        count = end - start
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        for index in range(first, last):
            count -= min(end, self._ends[index]) - max(start, self._starts[index])
        return count


class LagCounter:
    """Counts records with one consumer for all groups, which is created when the first group has a lag."""

    def __init__(self, make_consumer: Callable[[], Consumer[Any, Any]]) -> None:
        self._make_consumer = make_consumer
        self._consumer: Consumer[Any, Any] | None = None
        self.refusal: KafkaError | None = None
        """Why offsets are counted instead of records."""

    def lags(self, spans: Mapping[TopicPartition, Span]) -> dict[TopicPartition, int]:
        """The records in each span; the number of offsets where the log cannot be read."""
        lags = {each: span.end_offset - span.start_offset for each, span in spans.items()}
        behind = {each: span for each, span in spans.items() if lags[each] > 0}
        if behind and self.refusal is None:
            try:
                if self._consumer is None:
                    self._consumer = self._make_consumer()
                return lags | _counted(self._consumer, behind)
            except KafkaError as error:
                # The next group would fail the same way.
                self.refusal = error
        return lags

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _counted(
    consumer: Consumer[Any, Any], spans: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, int]:
    """The number of records that were seen, and of offsets after the last one looked at."""
    first = consumer.beginning_offsets(spans)
    left = {
        each: Span(max(span.start_offset, first[each]), span.end_offset)
        for each, span in spans.items()
    }
    read = {each: ReadStretch(span.start_offset) for each, span in left.items()}
    unread = {each for each, span in left.items() if span.start_offset < span.end_offset}
    consumer.assign(unread)
    # The group before may have read some of them to the end.
    consumer.resume(unread)
    for partition in unread:
        consumer.seek(partition, left[partition].start_offset)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while unread and time.monotonic() < deadline:
        records = consumer.poll(_POLL_SECONDS)
        for partition, next_offset in records.next_offsets.items():
            stretch, span = read[partition], left[partition]
            stretch.extend((each.offset for each in records.records(partition)), next_offset.offset)
            seen = stretch.record_count(Span(span.start_offset, stretch.end_offset))
            if stretch.end_offset >= span.end_offset or seen >= LOOKED_AT_RECORDS:
                unread.discard(partition)
                consumer.pause([partition])
    return {each: read[each].record_count(span) for each, span in left.items()}
