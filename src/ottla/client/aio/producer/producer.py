"""The producer on asyncio."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from ottla.client.aio.lifecycle import ClosedByBlock, check_loop, close_user_code
from ottla.client.aio.network.brokers import Network
from ottla.client.aio.producer import shutdown as ending
from ottla.client.aio.producer.coordinator_requests import Offsets
from ottla.client.aio.producer.sender import Sender
from ottla.client.aio.producer.transactor import Transactor
from ottla.client.arguments import positions_of, seconds_of, sequence_of
from ottla.client.metrics.producer_metrics import ProducerMetrics
from ottla.client.model import (
    ConsumerGroupMetadata,
    HeadersToSend,
    PartitionInfo,
    ProducerRecord,
)
from ottla.client.plugins.configured_objects import (
    partitioner_of,
    producer_interceptors_of,
    serializers_of,
)
from ottla.client.send.delivery import RecordFuture, SentRecords
from ottla.client.send.record_writer import TopicWanted, Wanted, Writer
from ottla.client.state.backoff import Backoff
from ottla.client.state.metadata import MetadataState
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.failed_records import FailedRecords
from ottla.client.state.producer.memory import Reservation
from ottla.client.state.producer.ongoing_transaction import OngoingTransaction
from ottla.client.state.producer.partition_queue import AccumulatorSettings, out_of_memory
from ottla.client.state.producer.producer_batch import OnDelivery, ProducerBatch
from ottla.client.state.producer.sequences import Sequences
from ottla.client.state.producer.sticky import Sticky
from ottla.client.state.producer.transactions import Operation, Transactions, fatal_again
from ottla.config.client import read_client_config
from ottla.config.producer import ProducerConfig
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
    TimedOutError,
    exception_for,
)
from ottla.records.record import Buffer

if TYPE_CHECKING:
    from ottla.config.option_types import ProducerOptions

log = logging.getLogger("ottla.client")

T = TypeVar("T")

HANDOVER_BYTES: Final = 256 * 1024
"""How much may be ready to go before those who send give way to the sender."""


class Producer(ClosedByBlock):
    """Sends records to a Kafka cluster; made on a running loop.

        async with ottla.aio.Producer(bootstrap_servers="127.0.0.1:9092") as producer:
            future = await producer.send("orders", value=b"tea")
            print((await future).offset)

    Options have Kafka's names: keywords with underscores, or a dict with dots.
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, /, **options: Unpack[ProducerOptions]
    ) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise IllegalStateError(
                "ottla.aio.Producer is made inside a running event loop; ottla.Producer needs none"
            ) from None
        self._start(read_client_config(ProducerConfig, config, options))

    @classmethod
    def of(cls, config: ProducerConfig) -> Self:
        """A producer whose options have been read already."""
        producer = cls.__new__(cls)
        producer._start(config)
        return producer

    def _start(self, config: ProducerConfig) -> None:
        self.config = config
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._assemble(config)

    def _assemble(self, config: ProducerConfig) -> None:
        key_serializer, value_serializer = serializers_of(config)
        self._serializers = (key_serializer, value_serializer)
        self._partitioner = partitioner_of(config)
        self._interceptors = producer_interceptors_of(config)
        retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.accumulator = Accumulator(_accumulator_settings(config, retry))
        self.accumulator.loop = self._loop
        self._transactions: Transactions | None = None
        if config.transactional_id is None:
            self.accumulator.failed_records = FailedRecords()
        else:
            self._transactions = Transactions(
                config.transactional_id, self.accumulator.lock, self.accumulator.refuse
            )
        sequences = None
        if config.enable_idempotence:
            sequences = Sequences(is_transactional=self._transactions is not None)
        self._network = Network(
            config,
            MetadataState(
                max_age_ms=config.metadata_max_age_ms,
                backoff=retry,
                max_idle_ms=config.metadata_max_idle_ms,
            ),
        )
        sticky = _sticky_partitions(config)
        self._metrics = ProducerMetrics(self.accumulator)
        self.sender = Sender(
            network=self._network,
            config=config,
            accumulator=self.accumulator,
            sequences=sequences,
            transactions=self._transactions,
            sticky=sticky,
            metrics=self._metrics,
            random_unit=random.random,
        )
        self._metrics.gauge("requests-in-flight", lambda: self.sender.in_flight_count)
        self._transactor: Transactor | None = None
        if sequences is not None:
            self._transactor = Transactor(
                network=self._network,
                config=config,
                accumulator=self.accumulator,
                sequences=sequences,
                transactions=self._transactions,
                sender=self.sender,
                random_unit=random.random,
            )
            self.sender.identities = self._transactor
        self.writer = Writer(
            accumulator=self.accumulator,
            sticky=sticky,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=self._partitioner,
            interceptors=self._interceptors,
            on_refused=self._refused,
            wake_sender=self.sender.wake_from_anywhere,
            now_ms=self.sender.now_ms,
        )
        self._network.on_update.append(self.writer.update)
        self._network.on_update.append(lambda _: self.sender.wake())
        self.sender.wake()

    # Sending

    async def send(
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
        """Put a record into a batch; waits for the topic's metadata and for buffer memory only.

        Await the future that it returns for the outcome. If this raises, the record will not be sent.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._check_loop()
        future = self.writer.try_send(
            topic, value, key, partition, headers, timestamp_ms, on_delivery
        )
        if future is not None:
            return future
        given: Any = headers or ()  # read with the rest, where mistakes are told
        record = ProducerRecord(topic, value, key, partition, given, timestamp_ms)
        sent: RecordFuture = await self._follow(self.writer.steps(record, on_delivery))
        return sent

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
    ) -> SentRecords:
        """Send many records at once: all have the same headers and time."""
        self._check_loop()
        sent: SentRecords = await self._follow(
            self.writer.steps_many(
                topic,
                sequence_of(values, "values"),
                None if keys is None else sequence_of(keys, "keys"),
                partition,
                headers,
                timestamp_ms,
            )
        )
        return sent

    async def send_encoded(
        self, topic: str, partition: int, batch: Buffer, *, check_crc: bool = True
    ) -> RecordFuture:
        """Send a record batch (magic 2) that is encoded already; the future is that of its first record.

        See `ottla.Producer.send_encoded`.
        """
        steps = self.writer.steps_encoded(topic, partition, batch, check_crc)
        sent: RecordFuture = await self._follow(steps)
        return sent

    async def _follow(self, steps: Any) -> Any:
        """Take the steps of a send, waiting where they say so, up to max.block.ms in all."""
        deadline = self._loop.time() + self.config.max_block_ms / 1000
        failure: BaseException | None = None
        while True:
            try:
                wanted = steps.send(None) if failure is None else steps.throw(failure)
            except StopIteration as stopped:
                if self.accumulator.full_bytes > HANDOVER_BYTES:
                    await asyncio.sleep(
                        0
                    )  # a task that never waits would keep the loop from sending
                return stopped.value
            failure = None
            try:
                await self.wait_for(wanted, deadline)
            except BaseException as error:
                failure = error

    async def wait_for(self, wanted: Wanted, deadline: float) -> None:
        """Wait until a step can be taken; `deadline` is in the loop's time."""
        if isinstance(wanted, TopicWanted):
            await self._wait_for_topic(wanted, deadline)
        else:
            await self._wait_for_memory(wanted, deadline)

    async def _wait_for_topic(self, wanted: TopicWanted, deadline: float) -> None:
        left_ms = max(0.0, (deadline - self._loop.time()) * 1000)
        topic, partition = wanted
        found = await self._network.topic(topic, left_ms)
        if partition is None or partition < len(found.partitions):
            return
        # Perhaps partitions were added since.
        self._network.request_update()
        left_ms = (deadline - self._loop.time()) * 1000
        try:
            if left_ms <= 0:
                raise TimedOutError
            await self._network.updated(left_ms)
        except TimedOutError:
            raise TimedOutError(
                message=(
                    f"Partition {partition} of topic {topic}, which has {len(found.partitions)} "
                    f"partitions, did not appear within {self.config.max_block_ms} ms."
                ),
                context={"api": "Metadata", "topic": topic},
            ) from None

    async def _wait_for_memory(self, reservation: Reservation, deadline: float) -> None:
        granted = self._loop.create_future()

        def tell() -> None:
            if not granted.done():
                granted.set_result(None)

        reservation.wake = tell
        if reservation.granted:
            return
        try:
            async with asyncio.timeout_at(deadline):
                await granted
        except TimeoutError:
            raise out_of_memory(self.accumulator.settings, self.config.max_block_ms) from None

    def _refused(self, error: Exception) -> None:
        """A record was not accepted: a transaction that misses it must not be committed."""
        self._metrics.refused()
        if self._transactions is not None and isinstance(error, KafkaError):
            self._transactions.record_refused(error)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that was appended before this call and wait until its outcome is known.

        The outcome is that of each record's future: a record that failed raises nothing here. What has ended the whole
        producer does, as in every later call.
        """
        self._check_loop()
        self._check_alive()
        limit = None if timeout is None else seconds_of(timeout)
        accumulator = self.accumulator
        with accumulator.lock:
            accumulator.flushing += 1
            batches = list(accumulator.incomplete)
        self.sender.wake()
        try:
            async with asyncio.timeout(limit):
                for batch in batches:
                    await _settled(batch)
        except TimeoutError:
            raise TimedOutError(
                message=f"{len(accumulator.incomplete)} batches are not acknowledged after {timeout} s.",
                context={"api": "Produce"},
            ) from None
        finally:
            with accumulator.lock:
                accumulator.flushing -= 1
        self._check_alive()

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with their leaders and replicas."""
        self._check_alive()
        await self._network.topic(topic, self.config.max_block_ms)
        return self._network.cluster.partitions_for(topic)

    def metrics(self) -> dict[str, float]:
        """What was counted so far, under Kafka's names."""
        return self._metrics.snapshot()

    # Transactions

    async def init_transactions(self) -> None:
        """Get the producer id and epoch of the transactional id; its last producer is fenced."""
        await self._operate(*self._transactional("init_transactions").begin_init())

    async def begin_transaction(self) -> None:
        """Begin a transaction: records that are sent from now on belong to it."""
        transactions = self._transactional("begin_transaction")

        def enter() -> None:
            self.accumulator.transaction = OngoingTransaction(transactions.is_version_2)

        transactions.begin(enter)

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a consumer group's positions with the transaction."""
        method = "send_offsets_to_transaction"
        self._transactional(method).check_open(method)
        positions = positions_of(offsets)
        if isinstance(group, str):
            group = ConsumerGroupMetadata(group)
        if not isinstance(group, ConsumerGroupMetadata):
            raise TypeError(f"a group is named by group_metadata() or its id, not {group!r}")
        if not positions:
            return
        assert self._transactor is not None
        sending = self._loop.create_task(self._transactor.send_offsets(positions, group))
        await self._within_max_block(sending, method)

    async def commit_transaction(self) -> None:
        """Send what is left, then commit; an AbortableError means: abort."""
        await self._operate(*self._transactional("commit_transaction").begin_commit())

    async def abort_transaction(self) -> None:
        """Drop what was not sent, wait for what was, then abort."""
        await self._operate(*self._transactional("abort_transaction").begin_abort())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that commits at the end, or aborts if there is an exception."""
        await self.begin_transaction()
        try:
            yield self
        except FatalError:
            raise
        except BaseException as error:
            await self._abort_after(error)
            raise
        try:
            await self.commit_transaction()
        except AbortableError as error:
            await self._abort_after(error)
            raise

    async def _abort_after(self, first: BaseException) -> None:
        """Abort after an error that is more interesting than one of the abort, unless that is fatal."""
        try:
            await self.abort_transaction()
        except FatalError:
            raise
        except Exception as error:
            log.warning("%s: the abort failed: %s", self.config.client_id, error)
            first.add_note(
                f"The transaction is not aborted yet: {error} "
                "Call abort_transaction() until it returns, before the next transaction begins."
            )

    async def _operate(self, operation: Operation, is_new: bool) -> None:
        assert self._transactor is not None
        if is_new:
            self._transactor.start(operation)
            self.sender.wake()
        waiting = self._loop.create_task(operation.wait_async())
        await self._within_max_block(waiting, operation.method)
        operation.is_seen = True
        if operation.error is not None:
            raise operation.error

    async def _within_max_block(self, waiting: asyncio.Task[T], method: str) -> T:
        limit_ms = self.config.max_block_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await asyncio.shield(waiting)
        except TimeoutError:
            if waiting.done():
                return waiting.result()
            waiting.add_done_callback(_look_at)
            why = f"{method}() is not done after {limit_ms} ms; call it again to go on."
            assert self._transactor is not None
            trouble = self._transactor.trouble or self._network.trouble
            if trouble is not None:
                why += f" The last error: {trouble}"
            raise TimedOutError(
                message=why,
                context={"api": method, "transactional_id": self.config.transactional_id},
            ) from trouble

    def _transactional(self, method: str) -> Transactions:
        self._check_open()
        if self._transactions is None:
            raise IllegalStateError(
                f"{method}() needs a transactional.id, which was not configured"
            )
        return self._transactions

    def _check_loop(self) -> None:
        check_loop(self._loop, f"producer {self.config.client_id}")

    def _check_open(self) -> None:
        self._check_loop()
        if self._is_closed:
            raise self._closed()

    def _check_alive(self) -> None:
        self._check_open()
        if self._transactions is not None:
            self._transactions.check_alive()
        if self.sender.failure is not None:
            raise fatal_again(self.sender.failure)

    def _closed(self) -> IllegalStateError:
        return IllegalStateError(f"{self.config.client_id} is closed")

    # The end

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, abort an open transaction, and end; after so many seconds the rest fails.

        Without a timeout that is delivery.timeout.ms + request.timeout.ms.
        """
        if self._is_closed:
            return
        self._check_loop()
        self._is_closed = True
        self.accumulator.close(self._closed)
        limit = ending.limit_seconds(self.config) if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                await ending.send_rest(self.sender)
                if self._transactions is not None and self._transactor is not None:
                    await ending.abort_open(self._transactions, self._transactor, self.config)
        except TimeoutError:
            log.warning("%s was closed before everything was sent", self.config.client_id)
        finally:
            await self._release()

    async def _release(self) -> None:
        ending.tell_lost(self.accumulator, self.config)
        if self._transactions is not None and self._transactor is not None:
            ending.tell_unended(self._transactions, self._transactor, self.config)
        error = exception_for(
            ErrorCode.NETWORK_EXCEPTION, "The producer was closed before the record was sent."
        )
        self.sender.close(AbortableError(error.code, error.message, {"api": "Produce"}))
        if self._transactor is not None:
            await self._transactor.close()
        await self._network.close()
        self._interceptors.close()
        close_user_code((*self._serializers, self._partitioner))

    def __repr__(self) -> str:
        return f"<ottla.aio.Producer {self.config.client_id}>"


async def _settled(batch: ProducerBatch) -> None:
    await batch.wait_async()
    for part in batch.parts:
        await _settled(part)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Nobody waits for it any more; its error is no error of the loop."""
    if not task.cancelled():
        task.exception()


def _accumulator_settings(config: ProducerConfig, retry: Backoff) -> AccumulatorSettings:
    return AccumulatorSettings(
        batch_bytes=config.batch_size,
        linger_ms=config.linger_ms,
        delivery_timeout_ms=config.delivery_timeout_ms,
        memory_bytes=config.buffer_memory,
        max_request_bytes=config.max_request_size,
        retry=retry,
    )


def _sticky_partitions(config: ProducerConfig) -> Sticky:
    return Sticky(
        batch_size_bytes=config.batch_size,
        random_below=random.randrange,
        is_adaptive=config.partitioner_adaptive_partitioning_enable,
        availability_timeout_ms=config.partitioner_availability_timeout_ms,
    )
