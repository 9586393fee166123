"""The inside of a consumer: from positions to records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.aio.consumer.fetcher import Collected, Fetcher
from ottla.client.aio.consumer.log_offsets import Offsets
from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.consumer.wakeup import Wakeups
from ottla.client.aio.group.group import GroupMember
from ottla.client.aio.network.brokers import Network
from ottla.client.arguments import Partition, partition_of
from ottla.client.arrow_records import ArrowRecords
from ottla.client.metrics.consumer_metrics import ConsumerMetrics
from ottla.client.model import EMPTY_RECORDS, ConsumerRecords, OffsetAndMetadata
from ottla.client.plugins.interceptors import ConsumerInterceptors
from ottla.client.state.consumer.positions import NO_EPOCH, FetchPosition, FetchState
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.consumer import ConsumerConfig
from ottla.errors import (
    ErrorCode,
    KafkaError,
    NoOffsetError,
    OttlaError,
    TimedOutError,
)
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.records.arrow import RecordColumns

log = logging.getLogger("ottla.client")

# What is wrong with a topic that will not mend by itself.
_TOPIC_REFUSALS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class Polling:
    """Waits for records, and has positions found on the way."""

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        subscriptions: SubscriptionState,
        interceptors: ConsumerInterceptors,
        metrics: ConsumerMetrics,
    ) -> None:
        self._config = config
        self._network = network
        self._subscriptions = subscriptions
        self._interceptors = interceptors
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._wakeups = Wakeups()
        self.waiting = self._wakeups.waiting
        self._initializing: asyncio.Task[None] | None = None
        self._error: OttlaError | None = None
        self._assignment_id = -1
        # Set once by the consumer: they need `wake` when they are made.
        self.group: GroupMember
        self.offsets: Offsets
        self.fetcher: Fetcher

    def wake(self) -> None:
        """Something has changed: a poll that waits looks around."""
        self._changed.set()

    def wakeup(self) -> None:
        """The call that waits, or the next one, raises WakeupError."""
        self._wakeups.request()
        self._changed.set()

    async def poll(self, timeout_seconds: float) -> ConsumerRecords:
        """Records, at most max.poll.records, or none after the timeout."""
        self.fetcher.end_offsets = {}
        collected = await self.collected(
            timeout_seconds, lambda: self.fetcher.collect(self._config.max_poll_records)
        )
        return EMPTY_RECORDS if collected is None else await self._hand_over(collected)

    async def poll_columns(
        self, timeout_seconds: float, columns: RecordColumns, end_offsets: Mapping[Partition, int]
    ) -> tuple[ArrowRecords, Collected | None]:
        """What there is before the ends, as columns, or nothing after the timeout."""
        self.fetcher.end_offsets = {partition_of(each): end for each, end in end_offsets.items()}
        collected = await self.collected(
            timeout_seconds, lambda: self.fetcher.collect_columns(columns)
        )
        next_offsets = {} if collected is None else collected.next_offsets
        return ArrowRecords(columns.finish(), next_offsets), collected

    async def collected(
        self, timeout_seconds: float, collect: Callable[[], Awaitable[Collected | None]]
    ) -> Collected | None:
        """What the fetcher has for the user when it has something; None after the timeout."""
        self._metrics.poll_began()
        deadline = self._loop.time() + timeout_seconds
        self.fetcher.is_wanted = True
        try:
            # Where records are always there, this is when heartbeats and answers have their turn.
            await asyncio.sleep(0)
            while True:
                self._changed.clear()
                self._wakeups.check()
                await self.group.poll()
                self.update_positions()
                collected = await collect()
                self.fetcher.send_fetches()
                if collected is not None:
                    self._metrics.progressed()
                    return collected
                # Answers that were looked at may have asked for resets.
                self.update_positions()
                if not await self.wait(deadline):
                    return None
        finally:
            self.fetcher.is_wanted = False
            self._metrics.poll_ended()

    async def _hand_over(self, collected: Collected) -> ConsumerRecords:
        records = ConsumerRecords(collected.records, collected.next_offsets)
        if not self._interceptors:
            return records
        try:
            seen: ConsumerRecords = await call_user(self._interceptors.on_consume, records)
        except BaseException:
            self.fetcher.give_back(collected)
            raise
        return seen

    async def wait(self, deadline: float) -> bool:
        """Wait until something changes; False once the time is over."""
        left = deadline - self._loop.time()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(left):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def until(self, is_done: Callable[[], bool], timeout_ms: float, what: str) -> None:
        """Have positions looked up until `is_done`; TimedOutError with `what` if it takes too long."""
        deadline = self._loop.time() + timeout_ms / 1000
        while not is_done():
            self._changed.clear()
            self._wakeups.check()
            self.update_positions()
            if not is_done() and not await self.wait(deadline):
                raise TimedOutError(message=f"{what} within {round(timeout_ms)} ms.")

    def update_positions(self) -> None:
        """Start what is needed so that every partition gets a position; raise what went wrong."""
        if self._assignment_id != self._subscriptions.assignment_id:
            self._assignment_id = self._subscriptions.assignment_id
            self.fetcher.forget_unassigned()
        self._raise_errors()
        if not self._subscriptions.has_all_positions():
            if self._initializing is None and self._subscriptions.needs_position():
                self._initialize()
            self.offsets.update_positions()

    def _raise_errors(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.offsets.raise_error()
        self.fetcher.raise_error()
        if self._network.failure is not None:
            raise self._network.failure
        if self._network.cluster.errors:
            for topic in self._subscriptions.metadata_topics():
                code = self._network.cluster.errors.get(topic)
                if code in _TOPIC_REFUSALS:
                    raise self._network.cluster.error_of(topic)

    # First positions

    def _initialize(self) -> None:
        if self.group.group_id is None:
            self._without_committed(self._subscriptions.needs_position())
        else:
            self._initializing = self._loop.create_task(self._seek_committed())
            self._initializing.add_done_callback(self._initialized)

    async def _seek_committed(self) -> None:
        """Go on where the group left off; partitions without a committed offset are reset."""
        partitions = self._subscriptions.needs_position()
        try:
            committed = await self.group.committed(partitions)
        except KafkaError as error:
            if not error.code.retriable:
                raise
            log.debug("committed offsets will be asked for again: %s", error)
            return
        for partition, found in committed.items():
            if found is not None and self._is_initializing(partition):
                self.seek(partition, found)
        self._without_committed([p for p in partitions if committed.get(p) is None])

    def _initialized(self, task: asyncio.Task[None]) -> None:
        self._initializing = None
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, OttlaError):
                self._error = error
            elif error is not None:
                log.error("looking up committed offsets failed", exc_info=error)
            self.wake()

    def _without_committed(self, partitions: Iterable[TopicPartition]) -> None:
        reset = self._subscriptions.default_reset
        nowhere = []
        for partition in partitions:
            if not self._is_initializing(partition):
                continue  # the user sought meanwhile, or the partition went
            if reset.kind is reset.kind.NONE:
                nowhere.append(partition)
            else:
                self._subscriptions.state(partition).request_reset(reset)
        if nowhere:
            raise NoOffsetError(nowhere)

    def _is_initializing(self, partition: TopicPartition) -> bool:
        state = self._subscriptions.find(partition)
        return state is not None and state.fetch_state is FetchState.INITIALIZING

    def seek(self, partition: TopicPartition, to: OffsetAndMetadata) -> None:
        """Go on at an offset."""
        epoch = NO_EPOCH if to.leader_epoch is None else to.leader_epoch
        leader = self.offsets.leader_of(partition)
        if epoch > leader.epoch:
            self._network.request_update()  # whoever wrote this has seen newer metadata
        self._subscriptions.state(partition).seek(FetchPosition(to.offset, epoch, leader))

    async def end_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, int]:
        """The offsets that timestamps with a meaning stand for."""
        found = await self.offsets.find(timestamps, timeout_ms)
        return {partition: found[partition].offset for partition in timestamps}

    async def close(self) -> None:
        """End what is under way."""
        if self._initializing is not None:
            self._initializing.cancel()
            await asyncio.gather(self._initializing, return_exceptions=True)
        await self.offsets.close()
