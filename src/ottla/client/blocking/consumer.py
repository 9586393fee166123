"""The blocking consumer: the asyncio one on a thread of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, Unpack

from ottla.client.aio.consumer.consumer import Consumer as AsyncConsumer
from ottla.client.aio.consumer.fetcher import Collected
from ottla.client.aio.consumer.user_code import no_user_code
from ottla.client.aio.group.group import OnCommit
from ottla.client.aio.group.rebalance_listener import Listener
from ottla.client.arguments import Partition, PartitionKey
from ottla.client.arrow_records import ArrowRecords
from ottla.client.blocking.calls import calling, waiting
from ottla.client.blocking.face import BlockingFace
from ottla.client.model import ConsumerRecord, ConsumerRecords, K_co, OffsetAndMetadata, V_co
from ottla.client.state.consumer.iteration_queue import Delivery
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.config.option_types import ConsumerOptions

ABANDON_SECONDS = 1.0


class _OnLoop(AsyncConsumer):
    """The consumer on the loop thread, with the methods that only the blocking consumer needs."""

    async def subscribe_or_unsubscribe(
        self, topics: Iterable[str] | str | re.Pattern[str], listener: Listener | None
    ) -> None:
        """As `subscribe`; it can wait for the listener if there are no topics."""
        with self._use():
            if not self._subscribe(topics, listener):
                await self._unsubscribe()

    async def assign_or_unsubscribe(self, partitions: Iterable[Partition]) -> None:
        """As `assign`; it can wait for the listener if there are no partitions."""
        with self._use():
            if not self._assign(partitions):
                await self._unsubscribe()

    async def start_commit(
        self,
        offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None,
        callback: OnCommit | None,
    ) -> None:
        """As `commit_async`, on the loop."""
        self.commit_async(offsets, callback)

    @property
    def delivery(self) -> Delivery:
        """What iteration hands out at the moment."""
        return self._subscriptions.delivery

    @property
    def is_closed(self) -> bool:
        """Whether `close` has begun."""
        return self._is_closed

    next_columns = AsyncConsumer._next_columns
    next_delivery = AsyncConsumer._next_delivery

    def put_back(self, records: ConsumerRecords) -> None:
        """The program did not get what `poll` returned: the next poll returns it again."""
        self._subscriptions.delivery = Delivery(records)

    def put_columns_back(self, result: tuple[ArrowRecords, Collected | None]) -> None:
        """As `put_back`, of columns: they are fetched again."""
        if result[1] is not None:
            self._fetcher.give_back(result[1])

    def show_marked(self, *, shows_control: bool, shows_aborted: bool) -> None:
        """As the fetcher's, before anything is read."""
        self._fetcher.show_marked(shows_control=shows_control, shows_aborted=shows_aborted)

    def stop_auto_commit(self) -> None:
        """Commit nothing without being asked any more; on any thread."""
        self._group.stop_auto_commit()

    async def abandon(self) -> None:
        """End for a program that ends, or lost its consumer, without `close`: leave the group, call no user code.

        It may not have worked on what it read last, so nothing is committed.
        """
        no_user_code()
        # It reads nothing any more: there is nothing to commit or to tell the listener.
        self._subscriptions.unsubscribe()
        await self.close(ABANDON_SECONDS)


class Consumer(BlockingFace[_OnLoop], Generic[K_co, V_co]):
    """Reads records: of topics that it shares with its group, or of partitions of its own choice.

        with ottla.Consumer({"bootstrap.servers": "localhost:9092", "group.id": "kitchen"}) as consumer:
            consumer.subscribe(["orders"])
            for record in consumer:
                print(record.value)

    `Consumer[str, Order]` says what keys and values are; type checkers know it by themselves where the deserializers
    are objects or classes with types.

    Heartbeats go on in a thread of its own whatever the program does. Listeners, interceptors, assignors, deserializers
    and callbacks of commits run on the thread that calls the consumer, and may call it again. One thread uses it at a
    time; only `wakeup` may be called by others, and by signal handlers.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ConsumerConfig | None = None,
        /,
        **options: Unpack[ConsumerOptions[K_co, V_co]],
    ) -> None:
        settings = read_client_config(ConsumerConfig, config, options)
        super().__init__(
            f"consumer {settings.client_id}", lambda: _OnLoop(settings), _OnLoop.abandon
        )

    # What is read
    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str],
        listener: Listener | None = None,
    ) -> None:
        """Share the partitions of these topics with the group; replaces an earlier subscription.

        A pattern (text that begins with ^, or a compiled one) stands for all topics whose whole name matches, also for
        topics that are created later. No topics at all is the same as `unsubscribe`.
        """
        self._thread.run(self._client.subscribe_or_unsubscribe(topics, listener))

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions, without sharing them in a group; none is the same as `unsubscribe`."""
        self._thread.run(self._client.assign_or_unsubscribe(partitions))

    unsubscribe = waiting(AsyncConsumer.unsubscribe)
    subscription = calling(AsyncConsumer.subscription)
    assignment = calling(AsyncConsumer.assignment)
    pause = calling(AsyncConsumer.pause)
    resume = calling(AsyncConsumer.resume)
    paused = calling(AsyncConsumer.paused)
    # Positions
    position = waiting(AsyncConsumer.position)
    seek = calling(AsyncConsumer.seek)
    seek_to_beginning = calling(AsyncConsumer.seek_to_beginning)
    seek_to_end = calling(AsyncConsumer.seek_to_end)
    current_lag = calling(AsyncConsumer.current_lag)
    offsets_for_times = waiting(AsyncConsumer.offsets_for_times)
    beginning_offsets = waiting(AsyncConsumer.beginning_offsets)
    end_offsets = waiting(AsyncConsumer.end_offsets)
    # Commits
    commit = waiting(AsyncConsumer.commit)

    def commit_async(
        self,
        offsets: Mapping[PartitionKey, int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """Commit without waiting; `callback(offsets, error)` is called in a later poll, commit or close."""
        self._thread.run(self._client.start_commit(offsets, callback))

    committed = waiting(AsyncConsumer.committed)
    group_metadata = calling(AsyncConsumer.group_metadata)
    enforce_rebalance = calling(AsyncConsumer.enforce_rebalance)
    # The cluster
    partitions_for = waiting(AsyncConsumer.partitions_for)
    list_topics = waiting(AsyncConsumer.list_topics)
    # How it is
    health = calling(AsyncConsumer.health)

    def metrics(self) -> dict[str, float]:
        """Counters and measurements under Kafka's names; on any thread."""
        self._thread.check()
        return self._client.metrics()

    def poll(self, timeout: float) -> ConsumerRecords[K_co, V_co]:
        """Wait up to `timeout` seconds for records; at most max.poll.records of them, or none.

        Returns early, and perhaps without records, where there was something to skip: aborted records, markers.
        `next_offsets` of the result says how far it got. Takes part in the group meanwhile: listeners are called
        in here.
        """
        # Records that come when Ctrl-C does must not count as read.
        return self._thread.run(self._client.poll(timeout), unclaimed=self._client.put_back)

    def poll_arrow(
        self,
        timeout: float,
        *,
        schema: pa.Schema | None = None,
        end_offsets: Mapping[Partition, int] | None = None,
    ) -> ArrowRecords:
        """As `poll`, but everything that has come, as Arrow columns; `pip install 'ottla[arrow]'`.

        The schema names the columns: key, value, topic, partition, offset, timestamp, timestampType, headers; all of
        them without one. Partitions that are in `end_offsets` are read up to there.
        """
        records, _ = self._thread.run(
            self._client.next_columns(timeout, schema, end_offsets),
            unclaimed=self._client.put_columns_back,
        )
        return records

    def __iter__(self) -> Iterator[ConsumerRecord[K_co, V_co]]:
        """Record after record, for ever; it ends when the consumer is closed."""
        while True:
            # Who commits sees by the iterator which records were handed out.
            yield from self._client.delivery.iterator
            if self._client.is_closed:
                return
            if not self._client.delivery.undelivered():
                self._thread.run(self._client.next_delivery())

    def wakeup(self) -> None:
        """Have the call that waits raise WakeupError, or the next one; on any thread, and in signal handlers.

        That is `poll` and iteration, `position`, `commit`, `committed`, and what asks for offsets and topics. A commit
        that was interrupted may have been made all the same.
        """
        self._thread.call_soon(self._client.wakeup)

    def close(self, timeout: float | None = None) -> None:
        """Commit (with auto commit), leave the group, close the connections; within so many seconds.

        Without a timeout it takes at most 30 seconds and default.api.timeout.ms, and looks 3 seconds for a coordinator
        that cannot be reached. A second close does nothing.
        """
        if self._thread.refusal is not None:
            return
        try:
            self._thread.run(self._client.close(timeout))
        finally:
            # Not if another thread uses the consumer: then it stays open.
            if self._client.is_closed:
                self._client.delivery.clear()
                self._thread.close()

    def __exit__(self, *raised: object) -> None:
        if raised[0] is not None:
            # What was read last may not have been worked on.
            self._client.stop_auto_commit()
        self.close()


class InspectingConsumer(Consumer):
    """A consumer for tools: it also gets what others do not, as MarkedRecord.

    Which transactions were aborted is only known with isolation.level read_committed.
    """

    def __init__(
        self, config: Mapping[str, object], *, shows_control: bool, shows_aborted: bool
    ) -> None:
        super().__init__(config)
        self._client.show_marked(shows_control=shows_control, shows_aborted=shows_aborted)
