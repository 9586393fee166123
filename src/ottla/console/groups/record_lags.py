"""How many records groups have yet to read, and how old the first of them is.

The difference of offsets is larger than the number of records: markers of transactions have offsets, and so do records
that compaction removed. To leave them out, the log after the committed offset is read: a little of it while somebody
looks, up to 10,000 records of a partition when somebody asks for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.client.aio.consumer.consumer import Consumer
from ottla.console.clients import Clients
from ottla.errors import KafkaError, OttlaError
from ottla.inspection.lag import ReadStretch, Span
from ottla.model import TopicPartition

# What is read of each partition while somebody looks: enough to see that a small lag is only markers.
GLANCE_RECORDS: Final = 200
GLANCE_SECONDS: Final = 2.0
WHOLE_RECORDS: Final = 10_000
WHOLE_SECONDS: Final = 8.0
MAX_PARTITIONS: Final = 200
KEPT_SECONDS: Final = 1.5
# What offsets move on in the meantime is looked at no more often than that looks take this part of the time.
MAX_SHARE: Final = 1 / 10
MAX_KNOWN: Final = 20_000
RETRY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5
_OPTIONS: Final[Mapping[str, object]] = {
    "max_partition_fetch_bytes": 1 << 16,
    "max_poll_records": 1_000,
    "fetch_max_wait_ms": 200,
}


@dataclass(frozen=True, slots=True)
class RecordLag:
    """What was found after a committed offset; offsets that were not read count as records."""

    span: Span
    record_count: int
    is_whole: bool
    """Whether all was read: otherwise there are no more records than that."""
    first_at_ms: int | None
    """The timestamp of the first record that the group has not read."""

    def up_to(self, end_offset: int) -> RecordLag:
        """The same with another end of the log."""
        written = end_offset - self.span.end_offset
        if not written:
            return self
        return RecordLag(
            Span(self.span.start_offset, end_offset),
            max(0, self.record_count + written),
            is_whole=False,
            first_at_ms=self.first_at_ms,
        )


class _Known(NamedTuple):
    at: float
    lag: RecordLag


class RecordLags:
    """Reads with one consumer for all groups and browsers, one after the other."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._consumer: Consumer[Any, Any] | None = None
        self._reading = asyncio.Lock()
        self._known: OrderedDict[tuple[str, TopicPartition], _Known] = OrderedDict()
        self._later: dict[str, asyncio.Task[None]] = {}
        self._not_before = 0.0
        self._pauses: OrderedDict[str, float] = OrderedDict()
        self.problem: str | None = None
        """Why logs cannot be read."""

    def known(
        self, group: str, spans: Mapping[TopicPartition, Span]
    ) -> dict[TopicPartition, RecordLag]:
        """What was found of these spans; offsets that were written since count as records."""
        found = {}
        for partition, span in spans.items():
            if span.end_offset <= span.start_offset:
                found[partition] = RecordLag(span, 0, is_whole=True, first_at_ms=None)
                continue
            known = self._known.get((group, partition))
            if known is not None and known.lag.span.start_offset == span.start_offset:
                found[partition] = known.lag.up_to(span.end_offset)
        return found

    async def glance(
        self, group: str, spans: Mapping[TopicPartition, Span]
    ) -> dict[TopicPartition, RecordLag]:
        """What is known, after a short look at what is not; at MAX_PARTITIONS partitions at most."""
        await self._read(group, spans, GLANCE_RECORDS, GLANCE_SECONDS)
        return self.known(group, spans)

    async def count(
        self, group: str, spans: Mapping[TopicPartition, Span]
    ) -> dict[TopicPartition, RecordLag]:
        """What is found by reading up to WHOLE_RECORDS of each of MAX_PARTITIONS partitions."""
        await self._read(group, spans, WHOLE_RECORDS, WHOLE_SECONDS)
        return self.known(group, spans)

    def glance_later(self, group: str, spans: Mapping[TopicPartition, Span]) -> None:
        """Look in the background; the next answer has what is found."""
        if group not in self._later:
            task = asyncio.get_running_loop().create_task(
                self._read(group, spans, GLANCE_RECORDS, GLANCE_SECONDS)
            )
            self._later[group] = task
            task.add_done_callback(lambda _: self._later.pop(group, None))

    async def stop(self) -> None:
        """End."""
        tasks = list(self._later.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._consumer is not None:
            await self._consumer.close()

    async def _read(
        self, group: str, spans: Mapping[TopicPartition, Span], records: int, seconds: float
    ) -> None:
        async with self._reading:
            now = time.monotonic()
            if now < self._not_before:
                return
            due = {
                partition: span
                for partition, span in spans.items()
                if span.end_offset > span.start_offset
                and self._is_due(group, partition, span, records, now)
            }
            if not due:
                return
            if records == GLANCE_RECORDS and now < self._pauses.get(group, 0.0):
                return
            some = dict(list(due.items())[:MAX_PARTITIONS])
            try:
                found = await self._look(some, records, seconds)
                self.problem = None
            except OttlaError as error:
                # The next look would fail the same way.
                # All who look at groups are told: it must not name a topic that they may not see.
                reason = error.code.name if isinstance(error, KafkaError) else type(error).__name__
                self.problem = f"records cannot be counted: {reason}"
                self._not_before = now + RETRY_SECONDS
                return
            took = time.monotonic() - now
            self._pauses[group] = now + took / MAX_SHARE
            self._pauses.move_to_end(group)
            if len(self._pauses) > MAX_PARTITIONS:
                self._pauses.popitem(last=False)
            for partition, lag in found.items():
                key = (group, partition)
                self._known[key] = _Known(now, lag)
                self._known.move_to_end(key)
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def _is_due(
        self, group: str, partition: TopicPartition, span: Span, records: int, now: float
    ) -> bool:
        known = self._known.get((group, partition))
        if known is None:
            return True
        if known.lag.span == span:
            return not known.lag.is_whole and records > GLANCE_RECORDS
        # Offsets move all the time: somebody who looks makes the console read no more than now and then.
        return records > GLANCE_RECORDS or now - known.at >= KEPT_SECONDS

    async def _look(
        self, spans: Mapping[TopicPartition, Span], most: int, seconds: float
    ) -> dict[TopicPartition, RecordLag]:
        consumer = self._consumer
        if consumer is None:
            consumer = self._consumer = self._clients.consumer(**_OPTIONS)
        first = await consumer.beginning_offsets(spans)
        looks = {
            each: _Look(Span(max(span.start_offset, first[each]), span.end_offset), span)
            for each, span in spans.items()
        }
        unread = {each for each, look in looks.items() if not look.is_over(most)}
        consumer.assign(unread)
        consumer.resume(unread)
        for partition in unread:
            consumer.seek(partition, looks[partition].stretch.start_offset)
        deadline = time.monotonic() + seconds
        while unread and time.monotonic() < deadline:
            records = await consumer.poll(_POLL_SECONDS)
            for partition, next_offset in records.next_offsets.items():
                look = looks[partition]
                look.add(records.records(partition), next_offset.offset)
                if look.is_over(most):
                    unread.discard(partition)
                    consumer.pause([partition])
        consumer.assign([])
        return {each: look.result() for each, look in looks.items()}


class _Look:
    """What is seen of one partition."""

    def __init__(self, left: Span, span: Span) -> None:
        self._left = left
        self._span = span
        self._first_at_ms: int | None = None
        self.stretch = ReadStretch(left.start_offset)

    def add(self, records: Any, next_offset: int) -> None:
        inside = [each for each in records if each.offset < self._left.end_offset]
        if inside and self._first_at_ms is None and inside[0].timestamp >= 0:
            self._first_at_ms = inside[0].timestamp
        self.stretch.extend((each.offset for each in records), next_offset)

    def is_over(self, most: int) -> bool:
        start, end = self._left
        if self.stretch.end_offset >= end:
            return True
        return self.stretch.record_count(Span(start, self.stretch.end_offset)) >= most

    def result(self) -> RecordLag:
        return RecordLag(
            self._span,
            self.stretch.record_count(self._left),
            is_whole=self.stretch.end_offset >= self._left.end_offset,
            first_at_ms=self._first_at_ms,
        )
