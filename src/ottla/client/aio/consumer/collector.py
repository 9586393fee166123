"""Takes records out of the fetch buffer for a poll, and advances the positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.metrics.consumer_metrics import ConsumerMetrics
from ottla.client.model import ConsumerRecord, OffsetAndMetadata
from ottla.client.plugins.list_serializer import ListDeserializer
from ottla.client.plugins.serializers import Deserializer, FunctionDeserializer, LookupPending
from ottla.client.state.consumer.fetch_buffer import FetchBuffer
from ottla.client.state.consumer.fetched_partition import FetchedPartition
from ottla.client.state.consumer.lent_records import LentRecords
from ottla.client.state.consumer.positions import NO_EPOCH, FetchPosition
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.model import TopicPartition
from ottla.records.record import INT64_MAX

if TYPE_CHECKING:
    from ottla.records.arrow import RecordColumns


class Collected(NamedTuple):
    """Records for the program, and the positions of their partitions behind and before them."""

    records: dict[TopicPartition, list[ConsumerRecord]]
    next_offsets: dict[TopicPartition, OffsetAndMetadata]
    before: dict[TopicPartition, FetchPosition]


class RecordCollector:
    """Collects the records that a poll returns."""

    def __init__(
        self,
        buffer: FetchBuffer,
        subscriptions: SubscriptionState,
        deserializers: Iterable[Deserializer],
        metrics: ConsumerMetrics,
    ) -> None:
        self._buffer = buffer
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._has_user_code = any(map(_is_user_code, deserializers))

    async def collect(self, max_records: int) -> Collected | None:
        """At most `max_records` records; None if no position has moved.

        An error behind records that were already taken is raised by the next call.
        """
        collected = Collected({}, {}, {})
        left = max_records
        while left > 0:
            try:
                fetched = self._buffer.next_in_line()
                if fetched is None:
                    break
                before = self._subscriptions.state(fetched.partition).position
                assert before is not None
                taken = await self._take(fetched, left)
            except Exception:
                if collected.next_offsets:
                    break
                raise
            except BaseException:
                self.give_back(collected)
                raise
            if self._buffer.taken(fetched, before.offset):
                left -= len(taken)
                self._add(collected, fetched, before, taken)
        return collected if collected.next_offsets else None

    async def collect_columns(
        self, columns: RecordColumns, end_offsets: Mapping[TopicPartition, int]
    ) -> Collected | None:
        """Add the buffered records before the end offsets to columns; None if no position has moved.

        Errors are raised as by `collect`.
        """
        collected = Collected({}, {}, {})
        enough: set[TopicPartition] = set()
        columns.expect(self._buffer.size_bytes)
        while True:
            try:
                fetched = self._buffer.next_in_line(enough)
                if fetched is None:
                    break
                before = self._subscriptions.state(fetched.partition).position
                assert before is not None
                end_offset = end_offsets.get(fetched.partition, INT64_MAX)
                if before.offset >= end_offset:
                    # Records behind the end offsets must not fill the buffer.
                    if self._buffer.is_full:
                        self._buffer.drop(fetched)
                    else:
                        enough.add(fetched.partition)
                    continue
                fetched.take_columns(columns, end_offset)
            except Exception:
                if collected.next_offsets:
                    break
                raise
            if self._buffer.taken(fetched, before.offset):
                self._add(collected, fetched, before, [])
        return collected if collected.next_offsets else None

    def lend(self, until_seconds: float) -> LentRecords | None:
        """Lend what is left in the buffer to the program's thread; None if there is nothing to lend."""
        return self._buffer.lend(until_seconds)

    def take_back(self, lent: LentRecords) -> None:
        """End a loan."""
        for fetched in self._buffer.take_back(lent):
            self._metrics.consumed(fetched.record_count, fetched.size_bytes)

    async def _take(self, fetched: FetchedPartition, max_records: int) -> list[ConsumerRecord]:
        if not self._has_user_code:
            return fetched.take(max_records)
        # It may run on another thread, while answers arrive here.
        self._buffer.in_use = fetched
        try:
            while True:
                try:
                    taken: list[ConsumerRecord] = await call_user(fetched.take, max_records)
                    return taken
                except LookupPending as pending:
                    await pending.wait()
        finally:
            self._buffer.in_use = None

    def _add(
        self,
        collected: Collected,
        fetched: FetchedPartition,
        before: FetchPosition,
        taken: list[ConsumerRecord],
    ) -> None:
        partition = fetched.partition
        if taken:
            first = collected.records.get(partition)
            collected.records[partition] = taken if first is None else first + taken
        if fetched.is_consumed:
            self._metrics.consumed(fetched.record_count, fetched.size_bytes)
        if fetched.next_offset != before.offset:
            epoch = None if fetched.last_epoch == NO_EPOCH else fetched.last_epoch
            collected.next_offsets[partition] = OffsetAndMetadata(fetched.next_offset, "", epoch)
            collected.before.setdefault(partition, before)

    def give_back(self, collected: Collected) -> None:
        """The program did not get these records, because its call was cancelled: set the positions back."""
        for partition, position in collected.before.items():
            state = self._subscriptions.find(partition)
            if state is not None and state.has_valid_position and state.position is not None:
                offset, epoch, _ = position
                state.seek_validated(FetchPosition(offset, epoch, state.position.leader))


def _is_user_code(deserializer: Deserializer) -> bool:
    """Whether it may be slow, and so runs where other user code does; our own are quick enough for the loop."""
    # These two call functions of the program.
    calls_others = isinstance(deserializer, FunctionDeserializer | ListDeserializer)
    calls_others = calls_others or getattr(deserializer, "runs_user_code", False)
    return calls_others or not type(deserializer).__module__.startswith("ottla.")
