"""The producer on asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from ottla.client.aio.lifecycle import (
    ClosedByBlock,
    check_loop,
    close_user_code,
    still_awaitable,
)
from ottla.client.aio.producer import shutdown
from ottla.client.aio.producer.coordinator_requests import Offsets
from ottla.client.aio.producer.producer_parts import ProducerParts
from ottla.client.aio.producer.sender import LARGE_BACKLOG_BYTES
from ottla.client.aio.producer.transactor import Transactor
from ottla.client.arguments import positions_of, seconds_of
from ottla.client.model import ConsumerGroupMetadata, HeadersToSend, PartitionInfo
from ottla.client.plugins.serializers import LookupPending
from ottla.client.send.delivery import RecordFuture, SentRecords
from ottla.client.send.record_writer import Needed, Steps, TopicNeeded
from ottla.client.send.sent_rows import SentRows
from ottla.client.state.producer.memory import Reservation
from ottla.client.state.producer.ongoing_transaction import OngoingTransaction
from ottla.client.state.producer.partition_queue import out_of_memory
from ottla.client.state.producer.producer_batch import OnDelivery, ProducerBatch
from ottla.client.state.producer.transactions import Transactions, fatal_again
from ottla.config.client import read_client_config
from ottla.config.producer import ProducerConfig
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    TimedOutError,
    exception_for,
)
from ottla.records.record import Buffer

if TYPE_CHECKING:
    from ottla.client.arrow_records import ArrowRows
    from ottla.config.option_types import ProducerOptions

log = logging.getLogger("ottla.client")

R = TypeVar("R")


class Producer(ClosedByBlock):
    """Sends records to a Kafka cluster; made on a running loop.

        async with ottla.aio.Producer(bootstrap_servers="127.0.0.1:9092") as producer:
            future = await producer.send("orders", value=b"tea")
            print((await future).offset)

    Options have Kafka's names: keywords with underscores, or a dict with dots, or both.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ProducerConfig | None = None,
        /,
        **options: Unpack[ProducerOptions],
    ) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise IllegalStateError(
                "ottla.aio.Producer is made inside a running event loop; ottla.Producer needs none"
            ) from None
        self._config = read_client_config(ProducerConfig, config, options)
        self._parts = ProducerParts(self._config)
        self._is_closed = False
        self._try_send = self._parts.writer.try_send

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
        future = self._try_send(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        if future is not None:
            return future
        return await self._follow(
            self._parts.writer.steps(
                topic, value, key, partition, headers, timestamp_ms, on_delivery
            )
        )

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
        return await self._follow(
            self._parts.bulk_writer.steps(topic, values, keys, partition, headers, timestamp_ms)
        )

    async def send_arrow(
        self,
        topic: str,
        rows: ArrowRows,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SentRows:
        """Send the rows of Arrow columns as records: see `ottla.Producer.send_arrow`."""
        sent = SentRows()
        for steps in self._parts.arrow_writer.parts(sent, topic, rows, partition, timestamp_ms):
            await self._follow(steps)
            # Large tables are sent while the next rows are encoded.
            await asyncio.sleep(0)
        return sent

    async def send_encoded(
        self, topic: str, partition: int, batch: Buffer, *, check_crc: bool = True
    ) -> RecordFuture:
        """Send a record batch (magic 2) that is encoded already; the future is that of its first record.

        See `ottla.Producer.send_encoded`.
        """
        return await self._follow(
            self._parts.writer.steps_encoded(topic, partition, batch, check_crc)
        )

    async def _follow(self, steps: Steps[R]) -> R:
        """Take the steps of a send, waiting where they say so, up to max.block.ms in all."""
        self._check_loop()
        deadline = self._loop.time() + self._config.max_block_ms / 1000
        failure: BaseException | None = None
        while True:
            try:
                needed = steps.send(None) if failure is None else steps.throw(failure)
            except StopIteration as stopped:
                if self._parts.accumulator.full_bytes > LARGE_BACKLOG_BYTES:
                    # A task that never waits would keep the loop from sending.
                    await asyncio.sleep(0)
                sent: R = stopped.value
                return sent
            failure = None
            try:
                await self._wait_for(needed, deadline)
            except BaseException as error:
                failure = error

    async def _wait_for(self, needed: Needed, deadline: float) -> None:
        """Wait until the next step can be taken; `deadline` is in the loop's time."""
        if isinstance(needed, TopicNeeded):
            await self._wait_for_topic(needed, deadline)
        elif isinstance(needed, LookupPending):
            await self._wait_for_lookup(needed, deadline)
        else:
            await self._wait_for_memory(needed, deadline)

    async def _wait_for_topic(self, needed: TopicNeeded, deadline: float) -> None:
        network = self._parts.network
        topic, partition = needed
        found = await network.topic(topic, max(0.0, (deadline - self._loop.time()) * 1000))
        if partition is None or partition < len(found.partitions):
            return
        # The topic may have got more partitions since.
        network.request_update()
        left_ms = (deadline - self._loop.time()) * 1000
        try:
            if left_ms <= 0:
                raise TimedOutError
            await network.updated(left_ms)
        except TimedOutError:
            raise TimedOutError(
                message=(
                    f"Partition {partition} of topic {topic}, which has {len(found.partitions)} "
                    f"partitions, did not appear within {self._config.max_block_ms} ms."
                ),
                context={"api": "Metadata", "topic": topic},
            ) from None

    async def _wait_for_lookup(self, pending: LookupPending, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await pending.wait()
        except TimeoutError as error:
            if isinstance(error, TimedOutError):
                raise
            raise TimedOutError(
                message=f"{pending} It took longer than max.block.ms={self._config.max_block_ms}."
            ) from None

    async def _wait_for_memory(self, reservation: Reservation, deadline: float) -> None:
        granted = self._loop.create_future()

        def wake() -> None:
            if not granted.done():
                granted.set_result(None)

        reservation.wake = wake
        if reservation.granted:
            return
        try:
            async with asyncio.timeout_at(deadline):
                await granted
        except TimeoutError:
            settings = self._parts.accumulator.settings
            raise out_of_memory(settings, self._config.max_block_ms) from None

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that was appended before this call and wait until its outcome is known.

        The outcome is that of each record's future: a record that failed raises nothing here. A failure of the whole
        producer does, as in every later call.
        """
        self._check_alive()
        limit = None if timeout is None else seconds_of(timeout)
        accumulator = self._parts.accumulator
        with accumulator.lock:
            accumulator.flushing += 1
            batches = list(accumulator.incomplete)
        self._parts.sender.wake()
        try:
            async with asyncio.timeout(limit):
                for batch in batches:
                    await _ended(batch)
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
        await self._parts.network.topic(topic, self._config.max_block_ms)
        return self._parts.network.cluster.partitions_for(topic)

    def metrics(self) -> dict[str, float]:
        """The producer's counters so far, under Kafka's names."""
        return self._parts.metrics.snapshot()

    # Transactions

    async def init_transactions(self) -> None:
        """Get the producer id and epoch of the transactional id; its last producer is fenced."""
        transactions, transactor = self._transactional("init_transactions")
        await transactor.run(*transactions.begin_init())

    @still_awaitable
    def begin_transaction(self) -> None:
        """Begin a transaction: records that are sent from now on belong to it."""
        transactions, _ = self._transactional("begin_transaction")

        def enter() -> None:
            self._parts.accumulator.transaction = OngoingTransaction(transactions.is_version_2)

        transactions.begin(enter)

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a consumer group's positions with the transaction."""
        method = "send_offsets_to_transaction"
        transactions, transactor = self._transactional(method)
        transactions.check_open(method)
        positions = positions_of(offsets)
        if isinstance(group, str):
            group = ConsumerGroupMetadata(group)
        if not isinstance(group, ConsumerGroupMetadata):
            raise TypeError(f"a group is named by group_metadata() or its id, not {group!r}")
        if positions:
            await transactor.send_offsets(positions, group, method)

    async def commit_transaction(self) -> None:
        """Send all buffered records, then commit; after an AbortableError, abort."""
        transactions, transactor = self._transactional("commit_transaction")
        await transactor.run(*transactions.begin_commit())

    async def abort_transaction(self) -> None:
        """Drop records that were not sent, wait for those in flight, then abort."""
        transactions, transactor = self._transactional("abort_transaction")
        await transactor.run(*transactions.begin_abort())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that commits at the end, or aborts if there is an exception."""
        self.begin_transaction()
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
        """Abort after an error, which stays the one to raise, unless the abort fails for good."""
        try:
            await self.abort_transaction()
        except FatalError:
            raise
        except Exception as error:
            log.warning("%s: the abort failed: %s", self._config.client_id, error)
            first.add_note(
                f"The transaction is not aborted yet: {error} "
                "Call abort_transaction() until it returns, before the next transaction begins."
            )

    def _transactional(self, method: str) -> tuple[Transactions, Transactor]:
        self._check_open()
        transactions, transactor = self._parts.transactions, self._parts.transactor
        if transactions is None:
            raise IllegalStateError(
                f"{method}() needs a transactional.id, which was not configured"
            )
        assert transactor is not None
        return transactions, transactor

    # The end

    def _check_loop(self) -> None:
        check_loop(self._loop, f"producer {self._config.client_id}")

    def _check_open(self) -> None:
        self._check_loop()
        if self._is_closed:
            raise self._closed()

    def _check_alive(self) -> None:
        self._check_open()
        if self._parts.transactions is not None:
            self._parts.transactions.check_alive()
        if self._parts.sender.failure is not None:
            raise fatal_again(self._parts.sender.failure)

    def _closed(self) -> IllegalStateError:
        return IllegalStateError(f"{self._config.client_id} is closed")

    async def close(self, timeout: float | None = None) -> None:
        """Send all buffered records, abort an open transaction, and end; after `timeout` seconds the rest fails.

        Without a timeout that is delivery.timeout.ms + request.timeout.ms.
        """
        if self._is_closed:
            return
        self._check_loop()
        self._is_closed = True
        parts, config = self._parts, self._config
        parts.accumulator.close(self._closed)
        limit = shutdown.limit_seconds(config) if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                await shutdown.send_rest(parts.sender)
                if parts.transactions is not None and parts.transactor is not None:
                    await shutdown.abort_open(parts.transactions, parts.transactor, config)
        except TimeoutError:
            log.warning("%s was closed before everything was sent", config.client_id)
        finally:
            await self._release()

    async def _release(self) -> None:
        parts, config = self._parts, self._config
        shutdown.log_lost_records(parts.accumulator, config)
        if parts.transactions is not None and parts.transactor is not None:
            shutdown.log_unended_transaction(parts.transactions, parts.transactor, config)
        error = exception_for(
            ErrorCode.NETWORK_EXCEPTION, "The producer was closed before the record was sent."
        )
        parts.sender.close(AbortableError(error.code, error.message, {"api": "Produce"}))
        if parts.transactor is not None:
            await parts.transactor.close()
        await parts.network.close()
        parts.interceptors.close()
        close_user_code(parts.user_objects)

    def __repr__(self) -> str:
        return f"<ottla.aio.Producer {self._config.client_id}>"


async def _ended(batch: ProducerBatch) -> None:
    await batch.wait_async()
    for part in batch.parts:
        await _ended(part)
