"""The blocking consumer: calls of the asyncio one, which runs on a loop thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar, Unpack

from ottla.client.aio.consumer.collector import Collected
from ottla.client.aio.consumer.consumer import Consumer as AsyncConsumer
from ottla.client.aio.consumer.user_code import no_user_code
from ottla.client.aio.group.group import OnCommit
from ottla.client.aio.group.rebalance_listener import Listener
from ottla.client.arguments import Partition, PartitionKey, seconds_of
from ottla.client.arrow_records import ArrowRecords
from ottla.client.blocking.calls import calling, waiting
from ottla.client.blocking.face import BlockingFace
from ottla.client.model import (
    ConsumerRecord,
    ConsumerRecords,
    K_co,
    OffsetAndMetadata,
    Topics,
    V_co,
)
from ottla.client.state.consumer.iteration_queue import IterationQueue
from ottla.client.state.consumer.lent_records import LentRecords
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.config.option_types import ConsumerOptions

ABANDON_SECONDS = 1.0

LOAN_SECONDS: Final = 0.004
"""For how long polls need not ask the loop: a program that never waits would keep it from receiving."""

R = TypeVar("R")


class _OnLoop(AsyncConsumer):
    """The consumer on the loop thread, with the methods that only the blocking consumer needs."""

    def __init__(self, config: ConsumerConfig) -> None:
        super().__init__(config)
        self._lent: LentRecords | None = None
        # Interceptors may call the consumer, which ends a loan.
        self._lends = not self._interceptors
        self._user.before_use = self._end_loan
        self._reentered: LentRecords | None = None
        self._poll.is_reading = lambda: self._reentered is not None and self._reentered.is_reading

    async def poll_and_lend(self, timeout: float) -> ConsumerRecords:
        """As `poll`; what is left in the buffer is for the next calls of `take_lent`."""
        records = await self.poll(timeout)
        self._lend()
        return records

    async def fill_iteration_and_lend(self) -> None:
        """Get the records that iteration returns next, and lend the rest."""
        await self._fill_iteration()
        self._lend()

    def _lend(self) -> None:
        if self._lends:
            now_seconds = self._metrics.now_ms() / 1000
            self._lent = self._collector.lend(now_seconds + LOAN_SECONDS)

    def _end_loan(self, thread: int | None) -> bool:
        """On the loop, before a call: take the records back; False if another thread takes some at this moment."""
        lent = self._lent
        if lent is not None:
            if not lent.recall(thread):
                return False
            self._lent = None
            self._collector.take_back(lent)
            if lent.is_reentered:
                # What its deserializers read in a loan would have to be fetched again every time.
                self._lends = False
                self._reentered = lent
        return True

    def poll_lent(self) -> ConsumerRecords | None:
        """On the program's thread: the next records; None if the loop has to be asked."""
        return self._take_lent(_same)

    def iterate_lent(self) -> IterationQueue | None:
        """On the program's thread: the records that iteration returns next; None if the loop has to be asked."""
        before = self._subscriptions.iteration
        try:
            return self._take_lent(self._begin_iteration)
        except BaseException:
            # Ctrl-C: the positions are those before these records.
            self._subscriptions.iteration = before
            raise

    def _take_lent(self, deliver: Callable[[ConsumerRecords], R]) -> R | None:
        """The loop has to be asked whenever anything has happened that a waiting poll would look at."""
        lent = self._lent
        if (
            lent is None
            or lent.is_recalled
            or self._wakeups.changed.is_set()
            or not self._subscriptions.iteration.is_exhausted
        ):
            return None
        now_ms = self._metrics.now_ms()

        def count_and_deliver(records: ConsumerRecords) -> R:
            self._metrics.polled_lent(now_ms)
            return deliver(records)

        # Nothing is called behind it, where an interrupt would lose the records.
        return lent.take(self._config.max_poll_records, now_ms / 1000, count_and_deliver)

    def _begin_iteration(self, records: ConsumerRecords) -> IterationQueue:
        self._subscriptions.iteration = iteration = IterationQueue(records)
        return iteration

    def recall_lent(self) -> None:
        """The next poll has to ask the loop; on any thread, and in signal handlers."""
        lent = self._lent
        if lent is not None:
            lent.is_recalled = True

    async def subscribe_or_unsubscribe(self, topics: Topics, listener: Listener | None) -> None:
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
    def iteration(self) -> IterationQueue:
        """The records that iteration returns at the moment."""
        return self._subscriptions.iteration

    @property
    def is_closed(self) -> bool:
        """Whether `close` has begun."""
        return self._is_closed

    next_columns = AsyncConsumer._next_columns

    def put_back(self, records: ConsumerRecords) -> None:
        """The program did not get the records of `poll`: the next poll returns them again."""
        self._subscriptions.iteration = IterationQueue(records)

    def put_columns_back(self, result: tuple[ArrowRecords, Collected | None]) -> None:
        """Like `put_back`, for columns: their records are fetched again."""
        if result[1] is not None:
            self._collector.give_back(result[1])

    def show_marked(self, *, shows_control: bool, shows_aborted: bool) -> None:
        """Also return control records, or records of aborted transactions; call it before anything is read."""
        self._fetcher.show_marked(shows_control=shows_control, shows_aborted=shows_aborted)

    def stop_auto_commit(self) -> None:
        """Turn automatic commits off; on any thread."""
        self._group.stop_auto_commit()

    async def abandon(self) -> None:
        """Close a consumer that the program did not close: leave the group, and call no user code.

        Nothing is committed: the program may not have processed the last records.
        """
        no_user_code()
        # A thread that takes lent records at this moment keeps them, and nothing is committed.
        self._lent = None
        # Without a subscription close has nothing to commit, and no partitions for the listener.
        self._subscriptions.unsubscribe()
        await self.close(ABANDON_SECONDS)


class Consumer(BlockingFace[_OnLoop], Generic[K_co, V_co]):
    """Reads records of topics, whose partitions it shares with its group, or of partitions that the program assigns.

        with ottla.Consumer({"bootstrap.servers": "localhost:9092", "group.id": "kitchen"}) as consumer:
            consumer.subscribe(["orders"])
            for record in consumer:
                print(record.value)

    `Consumer[str, Order]` declares the types of keys and values; type checkers infer them from typed deserializers.

    A background thread sends heartbeats. Listeners, interceptors, assignors, deserializers and callbacks of commits run
    on the thread that calls the consumer, and may call it again, but not `poll`. One thread uses it at a time; only
    `wakeup` may be called by other threads, and by signal handlers.
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

    # Subscription and assignment
    def subscribe(
        self,
        topics: Topics,
        listener: Listener | None = None,
    ) -> None:
        """Share the partitions of these topics with the group; replaces an earlier subscription.

        A pattern (text that begins with ^, or a compiled one) stands for all topics whose whole name matches, also for
        topics that are created later. The broker resolves a `SubscriptionPattern`. No topics at all is the same as
        `unsubscribe`.
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
    # Metrics and health
    health = calling(AsyncConsumer.health)

    def metrics(self) -> dict[str, float]:
        """Metrics by Kafka's names; may be called on any thread."""
        self._thread.check()
        return self._client.metrics()

    def poll(self, timeout: float) -> ConsumerRecords[K_co, V_co]:
        """Wait up to `timeout` seconds for records, and return at most max.poll.records of them.

        May return early without records if it has skipped some: records of aborted transactions, control records. The
        result's `next_offsets` are the positions behind it. Rebalances happen in here: it calls listeners.
        """
        if self._thread.refusal is None:
            seconds_of(timeout)
            lent: ConsumerRecords[K_co, V_co] | None = self._client.poll_lent()
            if lent is not None:
                return lent
        # Records that arrive together with Ctrl-C must not count as read.
        return self._thread.run(
            self._client.poll_and_lend(timeout), unclaimed=self._client.put_back
        )

    def poll_arrow(
        self,
        timeout: float,
        *,
        schema: pa.Schema | None = None,
        end_offsets: Mapping[Partition, int] | None = None,
    ) -> ArrowRecords:
        """Like `poll`, but return all fetched records as Arrow columns; needs `pip install 'ottla[arrow]'`.

        The schema selects from the columns key, value, topic, partition, offset, timestamp, timestampType and headers;
        without one there are all of them. Partitions in `end_offsets` are read up to that offset.
        """
        records, _ = self._thread.run(
            self._client.next_columns(timeout, schema, end_offsets),
            unclaimed=self._client.put_columns_back,
        )
        return records

    def __iter__(self) -> Iterator[ConsumerRecord[K_co, V_co]]:
        """Iterate over records until the consumer is closed."""
        while True:
            # Commits read from this iterator which records the program has seen.
            yield from self._client.iteration.iterator
            if self._client.is_closed:
                return
            if self._client.iteration.is_exhausted and (
                self._thread.refusal is not None or self._client.iterate_lent() is None
            ):
                self._thread.run(self._client.fill_iteration_and_lend())

    def wakeup(self) -> None:
        """Make the call that waits, or else the next one that could wait, raise WakeupError.

        Calls that wait are `poll` and iteration, `position`, `commit`, `committed`, and those for offsets and topics.
        An interrupted commit may succeed all the same. May be called on any thread, and in signal handlers.
        """
        self._client.recall_lent()
        self._thread.call_soon(self._client.wakeup)

    def close(self, timeout: float | None = None) -> None:
        """Commit if enable.auto.commit is on, leave the group and close the connections, within `timeout` seconds.

        Without a timeout it takes at most 30 seconds or default.api.timeout.ms, and searches 3 seconds for a
        coordinator that cannot be reached. A second close does nothing.
        """
        if self._thread.refusal is not None:
            return
        try:
            self._thread.run(self._client.close(timeout))
        finally:
            # If another thread uses the consumer, close has raised, and the consumer stays open.
            if self._client.is_closed:
                self._client.iteration.clear()
                self._thread.close()

    def __exit__(self, *raised: object) -> None:
        if raised[0] is not None:
            # The program failed, and may not have processed the last records.
            self._client.stop_auto_commit()
        self.close()


def _same(records: ConsumerRecords) -> ConsumerRecords:
    return records


class InspectingConsumer(Consumer):
    """A consumer for tools that also returns control records, or those of aborted transactions, as MarkedRecord.

    Aborted transactions are only known with isolation.level=read_committed.
    """

    def __init__(
        self, config: Mapping[str, object], *, shows_control: bool, shows_aborted: bool
    ) -> None:
        super().__init__(config)
        self._client.show_marked(shows_control=shows_control, shows_aborted=shows_aborted)
