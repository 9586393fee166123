"""A poll: let the group do what is due, find positions, take records out of the fetcher, wait for more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from ottla.client.aio.consumer.collector import Collected, RecordCollector
from ottla.client.aio.consumer.fetcher import Fetcher
from ottla.client.aio.consumer.position_updates import PositionUpdates
from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.consumer.wakeup import Wakeups
from ottla.client.aio.group.group import GroupMember
from ottla.client.aio.network.network import Network
from ottla.client.arguments import Partition, partition_of
from ottla.client.arrow_records import ArrowRecords
from ottla.client.metrics.consumer_metrics import ConsumerMetrics
from ottla.client.model import EMPTY_RECORDS, ConsumerRecords
from ottla.client.plugins.interceptors import ConsumerInterceptors
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.errors import ErrorCode, TimedOutError

if TYPE_CHECKING:
    from ottla.records.arrow import RecordColumns

# Errors of a topic that a retry does not cure.
_FINAL_TOPIC_ERRORS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class Poller:
    """Waits for records, and starts what has to happen before they come."""

    def __init__(
        self,
        *,
        network: Network,
        subscriptions: SubscriptionState,
        group: GroupMember,
        positions: PositionUpdates,
        fetcher: Fetcher,
        collector: RecordCollector,
        interceptors: ConsumerInterceptors,
        metrics: ConsumerMetrics,
        wakeups: Wakeups,
        max_poll_records: int,
    ) -> None:
        self._network = network
        self._subscriptions = subscriptions
        self._group = group
        self._positions = positions
        self._fetcher = fetcher
        self._collector = collector
        self._interceptors = interceptors
        self._metrics = metrics
        self._wakeups = wakeups
        self._max_poll_records = max_poll_records
        self._loop = asyncio.get_running_loop()
        self._assignment_id = -1

    async def poll(self, timeout_seconds: float) -> ConsumerRecords:
        """At most max.poll.records records; none after the timeout."""
        self._fetcher.end_offsets = {}
        collected = await self._collect(
            timeout_seconds, lambda: self._collector.collect(self._max_poll_records)
        )
        return EMPTY_RECORDS if collected is None else await self._intercept(collected)

    async def poll_columns(
        self, timeout_seconds: float, columns: RecordColumns, end_offsets: Mapping[Partition, int]
    ) -> tuple[ArrowRecords, Collected | None]:
        """All fetched records before the end offsets, as columns; none after the timeout."""
        ends = {partition_of(each): end for each, end in end_offsets.items()}
        self._fetcher.end_offsets = ends
        collected = await self._collect(
            timeout_seconds, lambda: self._collector.collect_columns(columns, ends)
        )
        next_offsets = {} if collected is None else collected.next_offsets
        return ArrowRecords(columns.finish(), next_offsets, columns.schema), collected

    async def wait_until(
        self, is_done: Callable[[], bool], timeout_ms: float, message: str
    ) -> None:
        """Have positions looked up until `is_done`; TimedOutError with the message after the timeout."""
        deadline = self._loop.time() + timeout_ms / 1000
        while not is_done():
            self._wakeups.changed.clear()
            self._wakeups.check()
            self._update_positions()
            if not is_done() and not await self._wait_for_change(deadline):
                raise TimedOutError(message=f"{message} within {round(timeout_ms)} ms.")

    async def _collect(
        self, timeout_seconds: float, collect: Callable[[], Awaitable[Collected | None]]
    ) -> Collected | None:
        """The first result of `collect` that is not None; None after the timeout."""
        self._metrics.poll_began()
        deadline = self._loop.time() + timeout_seconds
        self._fetcher.is_wanted = True
        try:
            # If records are always there, this is the only chance of heartbeats and answers to run.
            await asyncio.sleep(0)
            while True:
                self._wakeups.changed.clear()
                self._wakeups.check()
                await self._group.poll()
                self._update_positions()
                collected = await collect()
                self._fetcher.send_fetches()
                if collected is not None:
                    self._metrics.progressed()
                    return collected
                # Answers that were collected may have requested resets.
                self._update_positions()
                if not await self._wait_for_change(deadline):
                    return None
        finally:
            self._fetcher.is_wanted = False
            self._metrics.poll_ended()

    async def _intercept(self, collected: Collected) -> ConsumerRecords:
        records = ConsumerRecords(collected.records, collected.next_offsets)
        if not self._interceptors:
            return records
        try:
            intercepted: ConsumerRecords = await call_user(self._interceptors.on_consume, records)
        except BaseException:
            self._collector.give_back(collected)
            raise
        return intercepted

    async def _wait_for_change(self, deadline: float) -> bool:
        """Wait until something changes; False after the deadline."""
        left_seconds = deadline - self._loop.time()
        if left_seconds <= 0:
            return False
        try:
            async with asyncio.timeout(left_seconds):
                await self._wakeups.changed.wait()
        except TimeoutError:
            return False
        return True

    def _update_positions(self) -> None:
        """Raise errors of the background, and start lookups for partitions without a valid position."""
        if self._assignment_id != self._subscriptions.assignment_id:
            self._assignment_id = self._subscriptions.assignment_id
            self._fetcher.forget_unassigned()
        self._raise_errors()
        self._positions.update()

    def _raise_errors(self) -> None:
        self._positions.raise_error()
        self._fetcher.raise_error()
        if self._network.failure is not None:
            raise self._network.failure
        if self._network.cluster.errors:
            for topic in self._subscriptions.metadata_topics():
                code = self._network.cluster.errors.get(topic)
                if code in _FINAL_TOPIC_ERRORS:
                    raise self._network.cluster.error_of(topic)
