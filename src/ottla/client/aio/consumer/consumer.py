"""A consumer on asyncio."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Generic, Unpack

from ottla.client.aio.consumer.consumer_settings import (
    fetch_settings,
    is_user_code,
    network_of,
    read_settings,
)
from ottla.client.aio.consumer.fetcher import Collected, Fetcher
from ottla.client.aio.consumer.log_offsets import NO_OFFSET, Offsets
from ottla.client.aio.consumer.poll import Polling
from ottla.client.aio.consumer.single_user import SingleUser, check_loop
from ottla.client.aio.consumer.topic_list import list_topics
from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.consumer.watchdog import Watchdog
from ottla.client.aio.group.commits import OnCommit
from ottla.client.aio.group.group import Listener, check_listener
from ottla.client.aio.group.membership import member_for
from ottla.client.aio.lifecycle import ClosedByBlock, close_user_code
from ottla.client.arguments import (
    Partition,
    PartitionKey,
    offsets_of,
    partition_of,
    partitions_of,
    pattern_of,
    position_of,
    seconds_of,
    times_of,
    topic_names,
)
from ottla.client.arrow_records import ArrowRecords, columns_for
from ottla.client.metrics.consumer_metrics import ConsumerMetrics
from ottla.client.metrics.health import ConsumerHealth
from ottla.client.model import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    ConsumerRecords,
    K_co,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    V_co,
)
from ottla.client.plugins.configured_objects import (
    assignors_of,
    consumer_interceptors_of,
    deserializers_of,
)
from ottla.client.state.consumer.iteration_queue import Delivery
from ottla.client.state.consumer.positions import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    RESET_EARLIEST,
    RESET_LATEST,
)
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig
from ottla.config.offset_reset import OffsetReset
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.config.option_types import ConsumerOptions

log = logging.getLogger("ottla.client")

CLOSE_TIMEOUT_SECONDS: Final = 30.0
# How long a close that was given no time looks for a group's coordinator that cannot be reached.
_CLOSE_PATIENCE_SECONDS: Final = 3.0
# How long iteration waits before it looks around; it goes on waiting then.
_ITERATION_POLL_SECONDS: Final = 60.0


class Consumer(ClosedByBlock, Generic[K_co, V_co]):
    """Reads records: of topics that it shares with its group, or of partitions of its own choice.

    Made on a running loop. One task uses it at a time; only `wakeup` may be called by others.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ConsumerConfig | None = None,
        /,
        **options: Unpack[ConsumerOptions[K_co, V_co]],
    ) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise IllegalStateError(
                "aio.Consumer needs a running loop: make it in a coroutine, or use ottla.Consumer"
            ) from None
        self._config = read_client_config(ConsumerConfig, config, options)
        self._subscriptions = SubscriptionState(self._config.offset_reset)
        self._metrics = ConsumerMetrics(
            self._subscriptions, reads_committed=self._config.reads_committed
        )
        self._interceptors = consumer_interceptors_of(self._config)
        self._deserializers = deserializers_of(self._config)
        assignors = assignors_of(self._config)
        self._network = network_of(self._config)
        self._polling = Polling(
            self._config, self._network, self._subscriptions, self._interceptors, self._metrics
        )
        self._group = member_for(
            self._network,
            self._config,
            self._subscriptions,
            assignors,
            self._interceptors,
            self._polling.wake,
            self._metrics,
        )
        self._offsets = Offsets(
            self._network,
            self._subscriptions,
            isolation_level=int(self._config.reads_committed),
            request_timeout_ms=self._config.request_timeout_ms,
            on_change=self._polling.wake,
        )
        self._fetcher = self._make_fetcher()
        self._polling.group = self._group
        self._polling.offsets = self._offsets
        self._polling.fetcher = self._fetcher
        self._watchdog = Watchdog(
            self._config,
            self._network,
            self._subscriptions,
            self._fetcher,
            self._group,
            self._metrics,
        )
        self._user = SingleUser(f"consumer {self._config.client_id}")
        self._is_closing = self._is_closed = False

    # What is read

    async def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str],
        listener: Listener | None = None,
    ) -> None:
        """Share the partitions of these topics with the group; takes the place of a former subscription.

        A pattern (text that begins with ^, or a compiled one) stands for all topics whose whole name
        matches, those that come later too. No topics at all is the same as `unsubscribe`.
        """
        with self._use():
            check_listener(listener)
            pattern = pattern_of(topics)
            names = [] if pattern is not None else topic_names(topics)
            if pattern is None and not names:
                await self._unsubscribe()
                return
            if self._group.group_id is None:
                self._group.subscription_changed()  # which says what is missing
            if pattern is not None:
                self._subscriptions.subscribe_pattern(pattern, listener)
            else:
                self._subscriptions.subscribe_topics(names, listener)
                self._fetcher.buffer.retain_topics(names)
            self._group.subscription_changed()

    async def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions, without a group's doing; none is the same as `unsubscribe`."""
        with self._use():
            wanted = partitions_of(partitions)
            if not wanted:
                await self._unsubscribe()
                return
            await self._group.commit_before_assign()
            if self._subscriptions.assign_from_user(wanted):
                self._network.want_only(list(self._subscriptions.metadata_topics()))

    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing until the next `subscribe` or `assign`."""
        with self._use():
            await self._unsubscribe()

    async def _unsubscribe(self) -> None:
        try:
            await self._group.unsubscribe()
        finally:
            self._subscriptions.unsubscribe()
            self._network.want_only([])
            self._polling.wake()

    def subscription(self) -> set[str]:
        """The topics of the subscription; those that match now, if it is a pattern."""
        with self._use():
            return set(self._subscriptions.subscription())

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read, by assignment of the group or of the program."""
        with self._use():
            return set(self._subscriptions.assigned())

    def pause(self, partitions: Iterable[Partition] | None = None) -> None:
        """Return no more records of these partitions (of all) until `resume`."""
        with self._use():
            chosen = self._chosen(partitions)
            self._subscriptions.give_back(chosen)
            for partition in chosen:
                self._subscriptions.state(partition).paused = True

    def resume(self, partitions: Iterable[Partition] | None = None) -> None:
        """Return records of these partitions (of all) again."""
        with self._use():
            for partition in self._chosen(partitions):
                self._subscriptions.state(partition).paused = False
            self._polling.wake()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with self._use():
            return set(self._subscriptions.paused())

    # Records

    async def poll(self, timeout: float) -> ConsumerRecords[K_co, V_co]:
        """Wait up to `timeout` seconds for records; at most max.poll.records of them, or none.

        Returns early, and perhaps without records, where there was something to skip: aborted records, markers.
        `next_offsets` of the result says how far it got. Takes part in the group meanwhile: listeners are called
        in here.
        """
        with self._use():
            self._check_subscribed()
            self._subscriptions.give_back(self._subscriptions.assigned())
            return await self._polling.poll(seconds_of(timeout))

    async def poll_arrow(
        self,
        timeout: float,
        *,
        schema: pa.Schema | None = None,
        end_offsets: Mapping[Partition, int] | None = None,
    ) -> ArrowRecords:
        """As `poll`, but everything that has come, as Arrow columns: see `ottla.Consumer.poll_arrow`."""
        return (await self.next_columns(timeout, schema, end_offsets))[0]

    async def next_columns(
        self, timeout: float, schema: pa.Schema | None, end_offsets: Mapping[Partition, int] | None
    ) -> tuple[ArrowRecords, Collected | None]:
        """What `poll_arrow` gives, and what the fetcher has to know if nobody gets it."""
        with self._use():
            self._check_subscribed()
            columns = columns_for(schema, self._deserializers, self._interceptors)
            self._subscriptions.give_back(self._subscriptions.assigned())
            return await self._polling.poll_columns(timeout, columns, end_offsets or {})

    async def next_delivery(self) -> Delivery:
        """What iteration hands out next, for iteration itself: programs write `async for record in consumer`."""
        with self._use():
            self._check_subscribed()
            while True:
                self._subscriptions.give_back(self._subscriptions.assigned())
                records = await self._polling.poll(_ITERATION_POLL_SECONDS)
                if records:
                    self._subscriptions.delivery = Delivery(records)
                    return self._subscriptions.delivery

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K_co, V_co]]:
        return self

    async def __anext__(self) -> ConsumerRecord[K_co, V_co]:
        self._check_open()
        for record in self._subscriptions.delivery.iterator:
            return record
        delivery = await self.next_delivery()
        return next(delivery.iterator)

    def wakeup(self) -> None:
        """Have the call that waits raise WakeupError, or the next one that could wait; on any thread.

        That is `poll` and iteration, `position`, `commit`, `committed`, and what asks for offsets and topics.
        """
        self._loop.call_soon_threadsafe(self._polling.wakeup)

    # Positions

    async def position(self, partition: Partition, timeout: float | None = None) -> int:
        """The offset of the next record of this partition that `poll` returns."""
        with self._use():
            wanted = partition_of(partition)
            self._subscriptions.state(wanted)
            await self._polling.until(
                lambda: self._subscriptions.has_position(wanted),
                self._limit_ms(timeout),
                f"Partition {wanted} got no position",
            )
            position = self._subscriptions.position(wanted)
            assert position is not None
            return position

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset in the next `poll`."""
        with self._use():
            wanted = partition_of(partition)
            to = position_of(wanted, offset)
            self._subscriptions.state(wanted)
            self._subscriptions.delivery.drop(wanted)
            self._polling.seek(wanted, to)

    def seek_to_beginning(self, partitions: Iterable[Partition] | None = None) -> None:
        """Go on at the first record of these partitions (of all), looked up when it is needed."""
        self._reset(partitions, RESET_EARLIEST)

    def seek_to_end(self, partitions: Iterable[Partition] | None = None) -> None:
        """Go on behind the last record of these partitions (of all), looked up when it is needed.

        With read_committed that is the last stable offset.
        """
        self._reset(partitions, RESET_LATEST)

    def _reset(self, partitions: Iterable[Partition] | None, reset: OffsetReset) -> None:
        with self._use():
            for partition in self._chosen(partitions):
                self._subscriptions.state(partition).request_reset(reset)
                self._subscriptions.delivery.drop(partition)

    def current_lag(self, partition: Partition) -> int | None:
        """How many offsets are behind the position, as of the last fetch; None if that is not known."""
        with self._use():
            return self._subscriptions.lag(
                partition_of(partition), committed_only=self._config.reads_committed
            )

    async def offsets_for_times(
        self, timestamps: Mapping[PartitionKey, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset of each partition whose record is not older than the time in milliseconds."""
        with self._use(), self._polling.waiting():
            wanted = times_of(timestamps)
            found = await self._offsets.find(wanted, self._limit_ms(timeout))
            return {
                partition: None
                if listed.offset == NO_OFFSET
                else OffsetAndTimestamp(
                    listed.offset,
                    listed.timestamp,
                    None if listed.leader_epoch < 0 else listed.leader_epoch,
                )
                for partition, listed in ((p, found[p]) for p in wanted)
            }

    async def beginning_offsets(
        self, partitions: Iterable[Partition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets of the first records of these partitions (of the assigned ones)."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP, timeout)

    async def end_offsets(
        self, partitions: Iterable[Partition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets behind the last records of these partitions (of the assigned ones).

        With read_committed they are those of the first open transactions, if there are any.
        """
        return await self._ends(partitions, LATEST_TIMESTAMP, timeout)

    async def _ends(
        self, partitions: Iterable[Partition] | None, timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        with self._use(), self._polling.waiting():
            wanted = dict.fromkeys(self._chosen(partitions), timestamp)
            return await self._polling.end_offsets(wanted, self._limit_ms(timeout))

    # Commits

    async def commit(
        self,
        offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit these offsets, or behind everything that `poll` has returned; waits until it is done."""
        with self._use():
            await self._group.commit(
                offsets_of(offsets), self._limit_ms(timeout), self._polling.waiting
            )

    async def commit_async(
        self,
        offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """Commit without waiting; `callback(offsets, error)` is called in a later poll, commit or close."""
        with self._use():
            await self._group.commit_async(offsets_of(offsets), callback)

    async def committed(
        self, partitions: Iterable[Partition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions (for the assigned ones)."""
        with self._use(), self._polling.waiting():
            return await self._group.committed(self._chosen(partitions), self._limit_ms(timeout))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What `Producer.send_offsets_to_transaction` needs to know of the group (KIP-447)."""
        with self._use():
            return self._group.group_metadata()

    def enforce_rebalance(self, reason: str = "the program asked for it") -> None:
        """Have the group share the partitions anew, in the next `poll` (KIP-568)."""
        with self._use():
            self._group.request_rejoin(reason)

    # The cluster

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic."""
        with self._use(), self._polling.waiting():
            await self._network.topic(topic, self._limit_ms(timeout))
            return self._network.cluster.partitions_for(topic)

    async def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics with their partitions, as far as this client may see them."""
        with self._use(), self._polling.waiting():
            return await list_topics(self._network, self._limit_ms(timeout))

    # How it is, and its end

    def metrics(self) -> dict[str, float]:
        """Counters and measurements under Kafka's names; on any thread."""
        return self._metrics.snapshot()

    def health(self) -> ConsumerHealth:
        """Whether the consumer is well, and if not, why."""
        return self._watchdog.health()

    async def close(self, timeout: float | None = None) -> None:
        """Commit (with auto commit), leave the group, close the connections; within so many seconds.

        Without a timeout it takes at most 30 seconds and default.api.timeout.ms, and looks 3 seconds for a coordinator
        that cannot be reached.
        """
        if self._is_closing:
            return
        patience_ms = None if timeout is not None else _CLOSE_PATIENCE_SECONDS * 1000
        if timeout is None:
            timeout = min(CLOSE_TIMEOUT_SECONDS, self._config.default_api_timeout_ms / 1000)
        with self._user:
            self._is_closing = True
            deadline = self._loop.time() + timeout
            self._watchdog.close()
            try:
                # The listener is called in here, and may commit.
                await self._group.close(timeout * 1000, patience_ms)
            finally:
                self._is_closed = True
                await self._polling.close()
                await self._fetcher.close(max(0.0, deadline - self._loop.time()) * 1000)
                await self._network.close()
                await call_user(self._close_user_code)

    def _close_user_code(self) -> None:
        self._interceptors.close()
        close_user_code(self._deserializers)

    async def __aexit__(self, *raised: object) -> None:
        if raised[0] is not None:
            # What was read last may not have been worked on.
            self._group.stop_auto_commit()
        await self.close()

    # What the methods share

    def _make_fetcher(self) -> Fetcher:
        return Fetcher(
            self._network,
            self._subscriptions,
            fetch_settings(self._config),
            read_settings(self._config, *self._deserializers),
            deserializes_in_user_code=any(map(is_user_code, self._deserializers)),
            metadata_max_age_ms=self._config.metadata_max_age_ms,
            metrics=self._metrics,
            on_change=self._polling.wake,
        )

    def _use(self) -> SingleUser:
        self._check_open()
        check_loop(self._loop, f"consumer {self._config.client_id}")
        return self._user

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateError(f"consumer {self._config.client_id} is closed")

    def _check_subscribed(self) -> None:
        if not self._subscriptions.uses_group and not self._subscriptions.assigned():
            raise IllegalStateError(
                "the consumer reads nothing: call subscribe() or assign() before poll(), "
                "and with ottla.aio await it"
            )

    def _chosen(self, partitions: Iterable[Partition] | None) -> list[TopicPartition]:
        """These partitions, or all assigned ones."""
        if partitions is None:
            return list(self._subscriptions.assigned())
        return partitions_of(partitions)

    def _limit_ms(self, timeout: float | None) -> float:
        return (
            self._config.default_api_timeout_ms if timeout is None else seconds_of(timeout) * 1000
        )
