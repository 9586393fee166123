"""Stretches of partitions, read by a user's own connection."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from ottla.client.aio.consumer.inspecting_consumer import InspectingConsumer
from ottla.client.aio.consumer.log_batches import LogBatch
from ottla.client.model import ConsumerRecord
from ottla.console.clients import Clients
from ottla.model import TopicPartition

Isolation = Literal["committed", "uncommitted"]
AnyRecord = ConsumerRecord[Any, Any]
Kept = Literal["newest", "oldest"]
"""Which records of a window that is too large are kept."""

POLL_SECONDS: Final = 0.5
_OPTIONS: Final[Mapping[str, object]] = {
    "max_poll_records": 2_000,
    "max_partition_fetch_bytes": 512 << 10,
    "fetch_max_bytes": 8 << 20,
    "default_api_timeout_ms": 15_000,
}


class Window(NamedTuple):
    """Offsets of a partition."""

    start_offset: int
    end_offset: int


class LogEnds(NamedTuple):
    """Where a partition begins and ends, and up to where readers of committed records see it."""

    start_offset: int
    stable_offset: int
    end_offset: int


@dataclass
class WindowRecords:
    """What was read of a window, without a gap: all of it, or less if that was too large or time ran out."""

    begin_offset: int
    end_offset: int
    """Up to here it was read."""
    records: deque[AnyRecord] = field(default_factory=deque)
    read_count: int = 0
    read_bytes: int = 0
    kept_bytes: int = 0
    is_full: bool = False
    """Whether the oldest part was read, and the rest is too large."""

    def add(self, record: AnyRecord, kept: Kept, max_bytes: int) -> None:
        """Keep a record; where there are too many bytes, the newest or the oldest are kept."""
        if self.is_full:
            return
        size = size_of(record)
        self.records.append(record)
        self.read_count += 1
        self.read_bytes += size
        self.kept_bytes += size
        if kept == "oldest" and self.kept_bytes >= max_bytes:
            self.is_full = True
            self.end_offset = record.offset + 1
        while kept == "newest" and self.kept_bytes > max_bytes and len(self.records) > 1:
            self.kept_bytes -= size_of(self.records.popleft())
            self.begin_offset = self.records[0].offset


def size_of(record: AnyRecord) -> int:
    """The bytes of a record's key, value and headers."""
    size = max(record.serialized_key_size, 0) + max(record.serialized_value_size, 0)
    if record.headers:
        size += sum(len(name) + len(data or b"") for name, data in record.headers)
    return size


class _Limits(NamedTuple):
    """Which records of a window are kept, and how long it may be read."""

    kept: Kept
    deadline: float
    max_bytes: int


class LogReader:
    """Reads windows. What is behind the last stable offset is read only by those who ask for uncommitted records.

    Up to the last stable offset it reads as a reader of committed records, which knows which ones are aborted.
    """

    def __init__(self, clients: Clients, *, shows_control: bool, shows_aborted: bool) -> None:
        self._clients = clients
        self._shows_control = shows_control
        self._shows_aborted = shows_aborted
        self._consumers: dict[Isolation, InspectingConsumer] = {}

    async def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogEnds]:
        """Where the partitions begin and end now."""
        committed, uncommitted = self._consumer("committed"), self._consumer("uncommitted")
        starts = await committed.beginning_offsets(partitions)
        stable = await committed.end_offsets(partitions)
        ends = await uncommitted.end_offsets(partitions)
        return {each: LogEnds(starts[each], stable[each], ends[each]) for each in partitions}

    async def offsets_at(
        self, partitions: Collection[TopicPartition], at_ms: int
    ) -> dict[TopicPartition, int | None]:
        """The first offset of each partition whose timestamp is not older."""
        found = await self._consumer("uncommitted").offsets_for_times(
            dict.fromkeys(partitions, at_ms)
        )
        return {each: None if place is None else place.offset for each, place in found.items()}

    async def read(
        self,
        windows: Mapping[TopicPartition, Window],
        stable_offsets: Mapping[TopicPartition, int],
        *,
        kept: Kept,
        deadline: float,
        max_bytes: int,
    ) -> dict[TopicPartition, WindowRecords]:
        """The records of the windows; `max_bytes` is for each of them."""
        found = {
            each: WindowRecords(window.start_offset, window.start_offset)
            for each, window in windows.items()
        }
        limits = _Limits(kept, deadline, max_bytes)
        parts: dict[Isolation, dict[TopicPartition, Window]] = {"committed": {}, "uncommitted": {}}
        for each, (start, end) in windows.items():
            stable = min(max(stable_offsets[each], start), end)
            if start < stable:
                parts["committed"][each] = Window(start, stable)
            if stable < end:
                parts["uncommitted"][each] = Window(stable, end)
        for isolation in ("committed", "uncommitted"):
            some = {
                each: window
                for each, window in parts[isolation].items()
                # What was not read up to here has no rest.
                if found[each].end_offset == window.start_offset and not found[each].is_full
            }
            if some:
                await self._read(isolation, some, found, limits)
        return found

    async def _read(
        self,
        isolation: Isolation,
        windows: Mapping[TopicPartition, Window],
        found: Mapping[TopicPartition, WindowRecords],
        limits: _Limits,
    ) -> None:
        consumer = self._consumer(isolation)
        consumer.assign(windows)
        for each, window in windows.items():
            consumer.seek(each, window.start_offset)
        consumer.resume()
        left = set(windows)
        while left and (seconds := limits.deadline - time.monotonic()) > 0:
            polled = await consumer.poll(min(POLL_SECONDS, seconds))
            for each in left.intersection(polled.partitions()):
                end = windows[each].end_offset
                for record in polled.records(each):
                    if record.offset < end:
                        found[each].add(record, limits.kept, limits.max_bytes)
            for each, position in polled.next_offsets.items():
                if each not in left:
                    continue
                end, mine = windows[each].end_offset, found[each]
                if not mine.is_full:
                    mine.end_offset = min(position.offset, end)
                if mine.is_full or position.offset >= end:
                    left.discard(each)
                    consumer.pause([each])

    async def batch_at(self, partition: TopicPartition, offset: int) -> LogBatch | None:
        """The batch that has an offset; None for messages from before Kafka 0.11."""
        found = await self._consumer("uncommitted").batches(partition, offset, max_bytes=1)
        for each in found.batches:
            if each.header.base_offset <= offset <= each.header.last_offset:
                return each
        return None

    def _consumer(self, isolation: Isolation) -> InspectingConsumer:
        found = self._consumers.get(isolation)
        if found is None:
            found = self._consumers[isolation] = self._clients.inspecting_consumer(
                shows_control=self._shows_control,
                shows_aborted=self._shows_aborted,
                isolation_level=f"read_{isolation}",
                **_OPTIONS,
            )
        return found

    async def close(self) -> None:
        """Close the connections."""
        async with asyncio.TaskGroup() as closing:
            for each in self._consumers.values():
                closing.create_task(self._clients.let_go(each))


@asynccontextmanager
async def log_reader(
    clients: Clients, *, shows_control: bool, shows_aborted: bool
) -> AsyncIterator[LogReader]:
    """A reader that is closed at the end of the block."""
    reader = LogReader(clients, shows_control=shows_control, shows_aborted=shows_aborted)
    try:
        yield reader
    finally:
        await reader.close()
