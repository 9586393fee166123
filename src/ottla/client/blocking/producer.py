"""The producer for programs without asyncio: the asyncio one on a thread of its own.

Records go into batches on the thread that calls `send`; the loop is woken only for a new or a full batch. A thread that
sends without pause would keep the interpreter from the loop. So a send that begins a new batch waits for the sender
while the backlog is large.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from ottla.client.aio.producer.producer import Producer as AsyncProducer
from ottla.client.aio.producer.sender import LARGE_BACKLOG_BYTES
from ottla.client.blocking.calls import waiting
from ottla.client.blocking.face import BlockingFace
from ottla.client.blocking.loop_thread import FORKED
from ottla.client.interruptible_wait import slices
from ottla.client.model import HeadersToSend
from ottla.client.plugins.serializers import LookupPending
from ottla.client.send.delivery import RecordFuture, SentRecords
from ottla.client.send.record_writer import Needed, Steps, TopicNeeded
from ottla.client.send.sent_rows import SentRows
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.memory import Reservation
from ottla.client.state.producer.partition_queue import out_of_memory
from ottla.client.state.producer.producer_batch import OnDelivery
from ottla.config.client import read_client_config
from ottla.config.producer import ProducerConfig
from ottla.errors import AbortableError, FatalError, IllegalStateError
from ottla.records.record import Buffer

if TYPE_CHECKING:
    from ottla.client.arrow_records import ArrowRows
    from ottla.config.option_types import ProducerOptions

R = TypeVar("R")

# For how long at most a thread waits for the sender, and when it does so again if that was not enough.
_BACKLOG_WAIT_SECONDS: Final = 0.05
_BACKLOG_PAUSE_SECONDS: Final = 1.0
# How long the end of a program is delayed for records of a producer that was not closed.
_ABANDON_SECONDS: Final = 1.0


class Producer(BlockingFace[AsyncProducer]):
    """Sends records to a Kafka cluster. Threads may share it.

        with ottla.Producer(bootstrap_servers="127.0.0.1:9092") as producer:
            producer.send("orders", value=b"tea", key=b"table 4")

    Options have Kafka's names: keywords with underscores, or a dict with dots, or both.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ProducerConfig | None = None,
        /,
        **options: Unpack[ProducerOptions],
    ) -> None:
        # Mistakes in the options show before a thread starts.
        self._config = settings = read_client_config(ProducerConfig, config, options)
        super().__init__(
            f"producer {settings.client_id}", lambda: AsyncProducer(settings), _abandon
        )
        self._parts = self._client._parts
        self._try_send = self._parts.writer.try_send
        self._accumulator = self._parts.accumulator
        self._waits_for_sender_from = 0.0
        self._thread.on_death(_refuser(self._accumulator))
        _open.add(self._accumulator)

    # Sending

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Put a record into a batch, which a thread of the producer's own will send.

        `result()` of what it returns waits for the outcome; `on_delivery(metadata, error)` is called with it on the
        producer's thread. If this raises, the record will not be sent.
        """
        future = self._try_send(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        if future is not None:
            return future
        return self._follow(
            self._parts.writer.steps(
                topic, value, key, partition, headers, timestamp_ms, on_delivery
            )
        )

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
    ) -> SentRecords:
        """Send many records at once, which costs much less for each: all have the same headers and time.

        Returns a sequence of futures, whose `result()` waits for all.
        """
        return self._follow(
            self._parts.bulk_writer.steps(topic, values, keys, partition, headers, timestamp_ms)
        )

    def send_arrow(
        self,
        topic: str,
        rows: ArrowRows,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SentRows:
        """Send the rows of Arrow columns as records, without an object for each; needs `pip install 'ottla[arrow]'`.

            producer.send_arrow("orders", pa.table({"key": [b"4", b"7"], "value": [b"tea", b"cake"]})).result()

        `rows` is a pyarrow Table, RecordBatch or RecordBatchReader, or what exports an Arrow stream: data frames of
        Polars and pandas, relations of DuckDB. The columns are `value`, and optionally `key` (both bytes or text),
        `headers` (a list of structs of key and value), `partition` (a whole number) and `timestamp` (a timestamp, a
        date, or milliseconds as int64); others are refused. Where a partition is null, the key chooses it as in `send`,
        and rows without a key fill one partition after another. Rows without a timestamp have `timestamp_ms`, or the
        current time. Batches have up to 1 MiB, whatever `batch.size` is.

        `result()` of what it returns waits until all rows are written. If this raises a KafkaError, its
        `context["accepted"]` has the rows that were accepted before, and are sent all the same.
        """
        sent = SentRows()
        for steps in self._parts.arrow_writer.parts(sent, topic, rows, partition, timestamp_ms):
            self._follow(steps)
        return sent

    def send_encoded(
        self, topic: str, partition: int, batch: Buffer, *, check_crc: bool = True
    ) -> RecordFuture:
        """Send a record batch (magic 2) that is already encoded, for example by another process.

        The batch has no producer id, epoch and sequence: it gets those of this producer when it is sent, becomes part
        of its transaction if there is one, and its checksum is renewed. Its checksum has to be right before; with
        check_crc=False that is left to the broker, which refuses a batch that was not. It keeps its codec and its
        timestamps; serializers, interceptors and the partitioner do not see it. If the broker finds it too large, it
        is split as any other. The future is that of its first record: the others follow it. What a read-only
        `memoryview` shows is not copied: it has to stay as it is until the future is done, or the producer is
        closed if that fails.
        """
        return self._follow(self._parts.writer.steps_encoded(topic, partition, batch, check_crc))

    def _follow(self, steps: Steps[R]) -> R:
        """Take the steps of a send, waiting where they say so, up to max.block.ms in all."""
        self._thread.check()
        deadline = time.monotonic() + self._config.max_block_ms / 1000
        failure: BaseException | None = None
        while True:
            try:
                needed = steps.send(None) if failure is None else steps.throw(failure)
            except StopIteration as stopped:
                self._wait_for_sender()
                sent: R = stopped.value
                return sent
            failure = None
            try:
                self._wait_for(needed, deadline)
            except BaseException as error:
                failure = error

    def _wait_for(self, needed: Needed, deadline: float) -> None:
        if isinstance(needed, TopicNeeded | LookupPending):
            left_seconds = max(0.0, deadline - time.monotonic())
            self._thread.run(self._wait_on_loop(needed, left_seconds))
        else:
            self._wait_for_memory(needed, deadline)

    async def _wait_on_loop(self, needed: TopicNeeded | LookupPending, left_seconds: float) -> None:
        await self._client._wait_for(needed, self._thread.loop.time() + left_seconds)

    def _wait_for_memory(self, reservation: Reservation, deadline: float) -> None:
        granted = threading.Event()
        reservation.wake = granted.set
        if reservation.granted:
            return
        # A callback on the producer's own thread would wait for itself.
        left_seconds = 0.0 if self._is_own_thread() else max(0.0, deadline - time.monotonic())
        if not any(granted.wait(seconds) for seconds in slices(left_seconds)):
            raise out_of_memory(self._accumulator.settings, self._config.max_block_ms)

    def _is_own_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def _wait_for_sender(self) -> None:
        """While the backlog is large, block for a moment, in which the loop sends."""
        if self._accumulator.full_bytes <= LARGE_BACKLOG_BYTES or self._is_own_thread():
            return
        if time.monotonic() < self._waits_for_sender_from:
            return
        if not self._parts.sender.wait_for_small_backlog(_BACKLOG_WAIT_SECONDS):
            # A broker that does not answer holds its batches up: records for others must not wait for it.
            self._waits_for_sender_from = time.monotonic() + _BACKLOG_PAUSE_SECONDS

    flush = waiting(AsyncProducer.flush)
    partitions_for = waiting(AsyncProducer.partitions_for)

    def metrics(self) -> dict[str, float]:
        """The producer's counters so far, under Kafka's names."""
        return self._client.metrics()

    # Transactions

    init_transactions = waiting(AsyncProducer.init_transactions)

    def begin_transaction(self) -> None:
        """Begin a transaction: records that are sent from now on belong to it."""

        async def begin() -> None:
            self._client.begin_transaction()

        self._thread.run(begin())

    send_offsets_to_transaction = waiting(AsyncProducer.send_offsets_to_transaction)
    commit_transaction = waiting(AsyncProducer.commit_transaction)
    abort_transaction = waiting(AsyncProducer.abort_transaction)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction that commits at the end, or aborts if there is an exception."""
        self.begin_transaction()
        try:
            yield self
        except FatalError:
            raise
        except BaseException as error:
            self._thread.run(self._client._abort_after(error))
            raise
        try:
            self.commit_transaction()
        except AbortableError as error:
            self._thread.run(self._client._abort_after(error))
            raise

    # The end

    def close(self, timeout: float | None = None) -> None:
        """Send all buffered records, abort an open transaction, and end; after `timeout` seconds the rest fails.

        Without a timeout that is delivery.timeout.ms + request.timeout.ms.
        """
        self._thread.close(lambda: self._client.close(timeout))

    def __repr__(self) -> str:
        return f"<ottla.Producer {self._config.client_id}>"


async def _abandon(producer: AsyncProducer) -> None:
    """End a producer that was not closed."""
    await producer.close(_ABANDON_SECONDS)


def _refuser(accumulator: Accumulator) -> Callable[[str], None]:
    """Refuses records of a producer whose thread has ended: they would never be sent."""

    def refuse(why: str) -> None:
        accumulator.close(lambda: IllegalStateError(why))

    return refuse


# In a child process they refuse records, which would never be sent: the loop thread exists in the parent only.
_open: weakref.WeakSet[Accumulator] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for accumulator in list(_open):
        # The lock may have been held by a thread that does not exist here.
        accumulator.lock = threading.Lock()
        accumulator.close(lambda: IllegalStateError(FORKED.format(name="the producer")))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
