"""A consumer on asyncio."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, Unpack

from ottla.client.aio.consumer.collector import Collected, RecordCollector
from ottla.client.aio.consumer.fetcher import Fetcher
from ottla.client.aio.consumer.log_offsets import NO_OFFSET, LogOffsets
from ottla.client.aio.consumer.poll import Poller
from ottla.client.aio.consumer.position_updates import PositionUpdates
from ottla.client.aio.consumer.single_user import SinglePoll, SingleUser
from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.consumer.wakeup import Wakeups
from ottla.client.aio.consumer.watchdog import Watchdog
from ottla.client.aio.group.group import MemberParts, OnCommit
from ottla.client.aio.group.protocols import create_member
from ottla.client.aio.group.rebalance_listener import Listener, check_listener
from ottla.client.aio.lifecycle import (
    ClosedByBlock,
    check_loop,
    close_user_code,
    still_awaitable,
)
from ottla.client.aio.network.network import Network
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
    SubscriptionPattern,
    Topics,
    V_co,
)
from ottla.client.plugins.configured_objects import (
    assignors_of,
    consumer_interceptors_of,
    deserializers_of,
)
from ottla.client.state.backoff import Backoff
from ottla.client.state.consumer.iteration_queue import IterationQueue
from ottla.client.state.consumer.positions import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    RESET_EARLIEST,
    RESET_LATEST,
)
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.client.state.metadata import MetadataState
from ottla.config.client import read_client_config
from ottla.config.consumer import CONSUMER_PROTOCOL, ConsumerConfig
from ottla.config.offset_reset import OffsetReset
from ottla.core.assignors.model import Assignor
from ottla.errors import IllegalStateError, KafkaError, TimedOutError
from ottla.model import TopicPartition
from ottla.records.client_kernel import free_spare_memory
from ottla.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.config.option_types import ConsumerOptions
    from ottla.records.arrow import RecordColumns

CLOSE_TIMEOUT_SECONDS: Final = 30.0
# How long a close without a timeout searches for a coordinator that cannot be reached.
_CLOSE_PATIENCE_SECONDS: Final = 3.0
# The timeout of each poll of an iteration, which polls until there are records.
_ITERATION_POLL_SECONDS: Final = 60.0


class Consumer(ClosedByBlock, Generic[K_co, V_co]):
    """Reads records of topics, whose partitions it shares with its group, or of partitions that the program assigns.

    It has to be made on a running event loop. One task uses it at a time; only `wakeup` may be called by others.
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
        self._columns: RecordColumns | None = None
        self._wakeups = Wakeups()
        self._user = SingleUser(f"consumer {self._config.client_id}")
        self._poll = SinglePoll(self._user)
        self._is_closing = self._is_closed = False
        # With the other protocol the broker assigns.
        is_classic = self._config.group_protocol != CONSUMER_PROTOCOL
        self._assemble(assignors_of(self._config) if is_classic else ())

    def _assemble(self, assignors: Sequence[Assignor]) -> None:
        wake = self._wakeups.changed.set
        self._network = _network_of(self._config)
        self._group = create_member(
            MemberParts(
                network=self._network,
                config=self._config,
                subscriptions=self._subscriptions,
                assignors=assignors,
                interceptors=self._interceptors,
                metrics=self._metrics,
                wake=wake,
            )
        )
        self._offsets = LogOffsets(
            self._network,
            isolation_level=int(self._config.reads_committed),
            request_timeout_ms=self._config.request_timeout_ms,
        )
        self._positions = PositionUpdates(
            self._network,
            self._subscriptions,
            self._group,
            self._offsets,
            request_timeout_ms=self._config.request_timeout_ms,
            wake=wake,
        )
        self._fetcher = Fetcher(
            network=self._network,
            subscriptions=self._subscriptions,
            config=self._config,
            deserializers=self._deserializers,
            metrics=self._metrics,
            on_change=wake,
        )
        self._collector = RecordCollector(
            self._fetcher.buffer, self._subscriptions, self._deserializers, self._metrics
        )
        self._poller = Poller(
            network=self._network,
            subscriptions=self._subscriptions,
            group=self._group,
            positions=self._positions,
            fetcher=self._fetcher,
            collector=self._collector,
            interceptors=self._interceptors,
            metrics=self._metrics,
            wakeups=self._wakeups,
            max_poll_records=self._config.max_poll_records,
        )
        self._watchdog = Watchdog(
            config=self._config,
            network=self._network,
            subscriptions=self._subscriptions,
            fetcher=self._fetcher,
            group=self._group,
            metrics=self._metrics,
        )

    # Subscription and assignment

    @still_awaitable
    def subscribe(
        self,
        topics: Topics,
        listener: Listener | None = None,
    ) -> None:
        """Share the partitions of these topics with the group; replaces an earlier subscription.

        A pattern (text that begins with ^, or a compiled one) stands for all topics whose whole name matches, also for
        topics that are created later. The broker resolves a `SubscriptionPattern`. No topics at all is the same as
        `unsubscribe`; if a listener has to be told of revoked partitions, it raises, since only `unsubscribe` can wait
        for the listener.
        """
        with self._use():
            if not self._subscribe(topics, listener):
                self._unsubscribe_without_waiting()

    def _subscribe(self, topics: Topics, listener: Listener | None) -> bool:
        """Take the subscription over; False if it names no topics."""
        check_listener(listener)
        if isinstance(topics, SubscriptionPattern):
            self._subscribe_broker_pattern(topics, listener)
            return True
        pattern = pattern_of(topics)
        names = [] if pattern is not None else topic_names(topics)
        if pattern is None and not names:
            return False
        if self._group.group_id is None:
            self._group.subscription_changed()  # raises: group.id is missing
        if pattern is not None:
            self._subscriptions.subscribe_pattern(pattern, listener)
        else:
            self._subscriptions.subscribe_topics(names, listener)
            self._fetcher.buffer.retain_topics(names)
        self._group.subscription_changed()
        return True

    def _subscribe_broker_pattern(
        self, pattern: SubscriptionPattern, listener: Listener | None
    ) -> None:
        if self._config.group_protocol != CONSUMER_PROTOCOL:
            raise IllegalStateError(
                "the broker resolves a SubscriptionPattern only with group.protocol=consumer: "
                "set it, or subscribe with re.compile(...)"
            )
        if self._group.group_id is None:
            self._group.subscription_changed()  # raises: group.id is missing
        self._subscriptions.subscribe_broker_pattern(pattern, listener)
        self._group.subscription_changed()

    @still_awaitable
    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions, without sharing them in a group; none is the same as `unsubscribe`."""
        with self._use():
            if not self._assign(partitions):
                self._unsubscribe_without_waiting()

    def _assign(self, partitions: Iterable[Partition]) -> bool:
        """Take the assignment over; False if it names no partitions."""
        wanted = partitions_of(partitions)
        if not wanted:
            return False
        self._group.commit_before_assign()
        if self._subscriptions.assign_from_user(wanted):
            self._network.want_only(list(self._subscriptions.metadata_topics()))
        return True

    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing until the next `subscribe` or `assign`."""
        with self._use():
            await self._unsubscribe()

    async def _unsubscribe(self) -> None:
        try:
            await self._group.unsubscribe()
        finally:
            self._forget_subscription()

    def _unsubscribe_without_waiting(self) -> None:
        subscriptions = self._subscriptions
        if (
            subscriptions.uses_group
            and subscriptions.assigned()
            and subscriptions.listener is not None
        ):
            raise IllegalStateError(
                "the rebalance listener has to be told that its partitions are revoked: "
                "write `await consumer.unsubscribe()`"
            )
        self._group.leave()
        self._forget_subscription()

    def _forget_subscription(self) -> None:
        self._subscriptions.unsubscribe()
        self._network.want_only([])
        self._wakeups.changed.set()

    def subscription(self) -> set[str]:
        """The subscribed topics; for a pattern, the topics that match now.

        Only the broker knows which topics match a `SubscriptionPattern`: these are the topics of assigned partitions.
        """
        with self._use():
            return set(self._subscriptions.subscription())

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are assigned, by the group or by the program."""
        with self._use():
            return set(self._subscriptions.assigned())

    def pause(self, partitions: Iterable[Partition] | None = None) -> None:
        """Return no records of these partitions until `resume`; of all assigned ones if none are given."""
        with self._use():
            chosen = self._chosen(partitions)
            self._subscriptions.give_back(chosen)
            for partition in chosen:
                self._subscriptions.state(partition).paused = True

    def resume(self, partitions: Iterable[Partition] | None = None) -> None:
        """Return records of these partitions again; of all assigned ones if none are given."""
        with self._use():
            for partition in self._chosen(partitions):
                self._subscriptions.state(partition).paused = False
            self._wakeups.changed.set()

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        with self._use():
            return set(self._subscriptions.paused())

    # Records

    async def poll(self, timeout: float) -> ConsumerRecords[K_co, V_co]:
        """Wait up to `timeout` seconds for records, and return at most max.poll.records of them.

        May return early without records if it has skipped some: records of aborted transactions, control records. The
        result's `next_offsets` are the positions behind it. Rebalances happen in here: it calls listeners.
        """
        with self._use_for_poll():
            self._check_subscribed()
            self._subscriptions.give_back(self._subscriptions.assigned())
            return await self._poller.poll(seconds_of(timeout))

    async def poll_arrow(
        self,
        timeout: float,
        *,
        schema: pa.Schema | None = None,
        end_offsets: Mapping[Partition, int] | None = None,
    ) -> ArrowRecords:
        """Like `poll`, but return all fetched records as Arrow columns: see `ottla.Consumer.poll_arrow`."""
        return (await self._next_columns(timeout, schema, end_offsets))[0]

    async def _next_columns(
        self, timeout: float, schema: pa.Schema | None, end_offsets: Mapping[Partition, int] | None
    ) -> tuple[ArrowRecords, Collected | None]:
        """The result of `poll_arrow`, and what the collector needs to take it back."""
        with self._use_for_poll():
            self._check_subscribed()
            columns = self._columns = columns_for(
                schema, self._deserializers, self._interceptors, self._columns
            )
            self._subscriptions.give_back(self._subscriptions.assigned())
            return await self._poller.poll_columns(timeout, columns, end_offsets or {})

    async def _fill_iteration(self) -> IterationQueue:
        """The records that iteration returns next, one by one."""
        with self._use_for_poll():
            self._check_subscribed()
            while True:
                self._subscriptions.give_back(self._subscriptions.assigned())
                records = await self._poller.poll(_ITERATION_POLL_SECONDS)
                if records:
                    self._subscriptions.iteration = IterationQueue(records)
                    return self._subscriptions.iteration

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K_co, V_co]]:
        return self

    async def __anext__(self) -> ConsumerRecord[K_co, V_co]:
        self._check_open()
        for record in self._subscriptions.iteration.iterator:
            return record
        iteration = await self._fill_iteration()
        return next(iteration.iterator)

    def wakeup(self) -> None:
        """Make the call that waits, or else the next one that could wait, raise WakeupError; on any thread.

        Calls that wait are `poll` and iteration, `position`, `commit`, `committed`, and those for offsets and topics.
        """
        self._loop.call_soon_threadsafe(self._wakeups.request)

    # Positions

    async def position(self, partition: Partition, timeout: float | None = None) -> int:
        """The offset of the next record of this partition that `poll` will return."""
        with self._use():
            wanted = partition_of(partition)
            self._subscriptions.state(wanted)
            await self._poller.wait_until(
                lambda: self._subscriptions.has_position(wanted),
                self._limit_ms(timeout),
                f"Partition {wanted} got no position",
            )
            position = self._subscriptions.position(wanted)
            assert position is not None
            return position

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Continue at this offset in the next `poll`."""
        with self._use():
            wanted = partition_of(partition)
            to = position_of(wanted, offset)
            self._subscriptions.state(wanted)
            self._subscriptions.iteration.drop(wanted)
            self._positions.seek(wanted, to)

    def seek_to_beginning(self, partitions: Iterable[Partition] | None = None) -> None:
        """Continue at the first record of these partitions, or of all; its offset is looked up when it is needed."""
        self._reset(partitions, RESET_EARLIEST)

    def seek_to_end(self, partitions: Iterable[Partition] | None = None) -> None:
        """Continue behind the last record of these partitions, or of all; the offset is looked up when it is needed.

        With isolation.level=read_committed it is the last stable offset.
        """
        self._reset(partitions, RESET_LATEST)

    def _reset(self, partitions: Iterable[Partition] | None, reset: OffsetReset) -> None:
        with self._use():
            for partition in self._chosen(partitions):
                self._subscriptions.state(partition).request_reset(reset)
                self._subscriptions.iteration.drop(partition)

    def current_lag(self, partition: Partition) -> int | None:
        """The number of offsets from the position to the end, by the last fetch; None if that is not known."""
        with self._use():
            return self._subscriptions.lag(
                partition_of(partition), committed_only=self._config.reads_committed
            )

    async def offsets_for_times(
        self, timestamps: Mapping[PartitionKey, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset of each partition whose timestamp is at or after the given one, in milliseconds."""
        with self._use(), self._wakeups.interruptible():
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
        """The first offsets of these partitions, or of the assigned ones."""
        return await self._end_offsets(partitions, EARLIEST_TIMESTAMP, timeout)

    async def end_offsets(
        self, partitions: Iterable[Partition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The end offsets of these partitions, or of the assigned ones.

        With isolation.level=read_committed they are the last stable offsets.
        """
        return await self._end_offsets(partitions, LATEST_TIMESTAMP, timeout)

    async def _end_offsets(
        self, partitions: Iterable[Partition] | None, timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        with self._use(), self._wakeups.interruptible():
            wanted = dict.fromkeys(self._chosen(partitions), timestamp)
            found = await self._offsets.find(wanted, self._limit_ms(timeout))
            return {partition: found[partition].offset for partition in wanted}

    # Commits

    async def commit(
        self,
        offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit these offsets, or the positions behind what `poll` has returned, and wait until that is done."""
        with self._use():
            await self._group.commit(
                offsets_of(offsets), self._limit_ms(timeout), self._wakeups.interruptible
            )

    @still_awaitable
    def commit_async(
        self,
        offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """Commit without waiting; `callback(offsets, error)` is called in a later poll, commit or close."""
        with self._use():
            self._group.commit_async(offsets_of(offsets), callback)

    async def committed(
        self, partitions: Iterable[Partition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of these partitions, or of the assigned ones; None where there is none."""
        with self._use(), self._wakeups.interruptible():
            return await self._group.committed(self._chosen(partitions), self._limit_ms(timeout))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The member's identity, for `Producer.send_offsets_to_transaction` (KIP-447)."""
        with self._use():
            return self._group.group_metadata()

    def enforce_rebalance(self, reason: str = "the program asked for it") -> None:
        """Rebalance the group, beginning with the next `poll` (KIP-568).

        With group.protocol=consumer it only logs a warning: the coordinator decides when to rebalance.
        """
        with self._use():
            self._group.request_rejoin(reason)

    # The cluster

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic."""
        with self._use(), self._wakeups.interruptible():
            await self._network.topic(topic, self._limit_ms(timeout))
            return self._network.cluster.partitions_for(topic)

    async def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics that this client is authorized to see, with their partitions."""
        with self._use(), self._wakeups.interruptible():
            return await _list_topics(self._network, self._limit_ms(timeout))

    # Metrics, health, close

    def metrics(self) -> dict[str, float]:
        """Metrics by Kafka's names; may be called on any thread."""
        return self._metrics.snapshot()

    def health(self) -> ConsumerHealth:
        """Whether the consumer makes progress, and if not, the likely reasons."""
        return self._watchdog.health()

    async def close(self, timeout: float | None = None) -> None:
        """Commit if enable.auto.commit is on, leave the group and close the connections, within `timeout` seconds.

        Without a timeout it takes at most 30 seconds or default.api.timeout.ms, and searches 3 seconds for a
        coordinator that cannot be reached.
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
                # This calls the listener, which may commit.
                await self._group.close(timeout * 1000, patience_ms)
            finally:
                self._is_closed = True
                await self._positions.close()
                await self._fetcher.close(max(0.0, deadline - self._loop.time()) * 1000)
                await self._network.close()
                if self._columns is not None:
                    self._columns.free_spare_memory()
                free_spare_memory()
                await call_user(self._close_user_code)

    def _close_user_code(self) -> None:
        self._interceptors.close()
        close_user_code(self._deserializers)

    async def __aexit__(self, *raised: object) -> None:
        if raised[0] is not None:
            # The program failed, and may not have processed the last records.
            self._group.stop_auto_commit()
        await self.close()

    # Helpers of the methods

    def _use(self) -> SingleUser:
        self._check_open()
        check_loop(self._loop, f"consumer {self._config.client_id}")
        return self._user

    def _use_for_poll(self) -> SinglePoll:
        self._use()
        return self._poll

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateError(f"consumer {self._config.client_id} is closed")

    def _check_subscribed(self) -> None:
        if not self._subscriptions.uses_group and not self._subscriptions.assigned():
            raise IllegalStateError(
                "the consumer reads nothing: call subscribe() or assign() before poll()"
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


def _network_of(config: ConsumerConfig) -> Network:
    """The network; allow.auto.create.topics decides whether its metadata requests create topics."""
    metadata = MetadataState(
        max_age_ms=config.metadata_max_age_ms,
        backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
        creates_topics=config.allow_auto_create_topics,
    )
    return Network(config, metadata)


async def _list_topics(network: Network, timeout_ms: float) -> dict[str, list[PartitionInfo]]:
    """Every topic with its partitions, by a Metadata request for all topics."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    last_error: KafkaError | None = None
    attempt = 0
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                try:
                    response = await network.call(await network.any_node(), request)
                    break
                except KafkaError as error:
                    if not error.code.retriable:
                        raise
                    last_error = error
                await asyncio.sleep(network.retry.delay_ms(attempt, random.random()) / 1000)
                attempt += 1
    except TimeoutError:
        last_error = last_error or network.trouble
        why = "" if last_error is None else f" The last error: {last_error}"
        raise TimedOutError(
            message=f"The topics could not be listed within {round(timeout_ms)} ms.{why}",
            context={"api": "Metadata"},
        ) from last_error
    # Not into the network's own metadata, which has only the topics that the consumer follows.
    found = MetadataState(max_age_ms=0, backoff=network.retry)
    found.apply(request, response, 0, 0)
    return {name: found.cluster.partitions_for(name) for name in found.cluster.topics}
