"""From a call of `send` to a record in a batch: interceptors, serializers, partitioner, memory.

The blocking and the asyncio producer take the same steps: generators that yield what has to be waited for, and the
producers wait, by blocking a thread or on the loop. A record that needs no waiting takes the short way, `try_send`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ottla.client.arguments import check_callback, check_record
from ottla.client.model import ProducerRecord
from ottla.client.plugins.interceptors import Acknowledgement, ProducerInterceptors
from ottla.client.plugins.serializers import LookupPending
from ottla.client.send.delivery import RecordFuture
from ottla.client.send.encoded_batches import check_ready_made, copy_if_mutable
from ottla.client.send.partition_router import PartitionRouter, TopicQueues
from ottla.client.send.record_serializers import RecordSerializers
from ottla.client.send.record_sizes import read_headers, record_bound_bytes
from ottla.client.send.record_timestamps import SECONDS_END, SecondsWatch
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.memory import Reservation
from ottla.client.state.producer.partition_queue import PartitionQueue
from ottla.client.state.producer.producer_batch import OnDelivery
from ottla.errors import SerializationError
from ottla.records.client_kernel import QuickWriter
from ottla.records.record import Buffer


class TopicNeeded(NamedTuple):
    """Wait until the topic is known, with this partition if there is one."""

    topic: str
    partition: int | None


Needed: TypeAlias = TopicNeeded | Reservation | LookupPending
"""The event that a step waits for: metadata of a topic, memory, or an answer that a serializer needs."""

TrySend: TypeAlias = Callable[[Any, Any, Any, Any, Any, Any, Any], RecordFuture | None]
"""Topic, value, key, partition, headers, timestamp and on_delivery of a record."""

R = TypeVar("R")
Steps: TypeAlias = Generator[Needed, None, R]


class RecordWriter:
    """Puts records into the accumulator."""

    def __init__(
        self,
        accumulator: Accumulator,
        router: PartitionRouter,
        serializers: RecordSerializers,
        interceptors: ProducerInterceptors,
        on_refused: Callable[[Exception], None],
        wake_sender: Callable[[], None],
        now_ms: Callable[[], float],
    ) -> None:
        """`on_refused` is called with the error of each record that is not accepted."""
        self.on_refused = on_refused
        self.wake_sender = wake_sender
        self.now_ms = now_ms
        self._accumulator = accumulator
        self._router = router
        self._serializers = serializers
        self._interceptors = interceptors
        self._seconds_watch = SecondsWatch()
        self._topics = router.topics
        self.try_send: TrySend = _takes_steps
        """Send a record of bytes if nothing has to be waited for; None: take the `steps`."""
        if router.is_standard and serializers.pass_bytes and not interceptors:
            self.try_send = QuickWriter(
                router.topics, accumulator, RecordFuture, router.ignores_keys, SECONDS_END
            ).try_send

    def steps(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Steps[RecordFuture]:
        """Send a record, waiting for what it takes."""
        check_callback(on_delivery)
        record = ProducerRecord(topic, value, key, partition, headers or (), timestamp_ms)
        interceptors = self._interceptors
        if interceptors.sees_sends:
            record = interceptors.on_send(_with_header_pairs(record))
        queue: PartitionQueue | None = None
        try:
            known = yield from self.topic_queues(
                record.topic, record.partition, record.timestamp_ms
            )
            pairs = read_headers(record.headers)
            while True:
                try:
                    key, value = self._serializers.serialize(
                        record.topic, pairs, record.key, record.value
                    )
                    break
                except LookupPending as pending:
                    needed = pending
                yield needed
            fields = (record.timestamp_ms, key, value, pairs)
            queue = self._router.queue_of(known, record, key, value)
            callback = self._callback_for(queue, on_delivery)
            future = self._accumulator.append(queue, *fields, callback)
            if future is not None:
                return future
            queue = self._router.queue_for_new_batch(known, record, key, value, queue)
            callback = self._callback_for(queue, on_delivery)
            future = self._accumulator.append(queue, *fields, callback)
            if future is not None:
                return future
            begin = partial(self._accumulator.append_new, queue, *fields, callback)
            bound_bytes = record_bound_bytes(key, value, pairs)
            future = yield from self.with_memory(queue, bound_bytes, begin)
            known.began_batch(queue)
            return future
        except Exception as error:
            interceptors.on_send_error(
                record, None if queue is None else queue.key.partition, error
            )
            self.on_refused(error)
            raise

    def steps_encoded(
        self, topic: str, partition: int, batch: Buffer, check_crc: bool
    ) -> Steps[RecordFuture]:
        """Send a batch that is encoded already, behind what was sent to its partition before."""
        try:
            check_ready_made(batch, self._accumulator.settings, check_crc=check_crc)
            known = yield from self.topic_queues(topic, partition, None)
            queue = known.queues[partition]
            add = partial(self._accumulator.append_encoded, queue, copy_if_mutable(batch))
            return (yield from self.with_memory(queue, len(batch), add))
        except Exception as error:
            self.on_refused(error)
            raise

    # Steps that other steps consist of

    def topic_queues(
        self, topic: str, partition: int | None, timestamp_ms: int | None
    ) -> Steps[TopicQueues]:
        """The queues of a topic, once it is known and has the partition; checks the arguments first."""
        check_record(topic, partition, timestamp_ms)
        if timestamp_ms is not None:
            self._seconds_watch.look(topic, timestamp_ms)
        while True:
            known = self._topics.get(topic)
            if known is not None and known.count and (partition is None or partition < known.count):
                return known
            if self._accumulator.refusal is not None:
                raise self._accumulator.refusal()
            yield TopicNeeded(topic, partition)

    def with_memory(
        self, queue: PartitionQueue, size_bytes: int, begin: Callable[[Reservation, float], R]
    ) -> Steps[R]:
        """Begin a batch once there is memory for it; `begin` gets that, and the time.

        If no batch comes of it, also because of Ctrl-C in the middle, the memory is free again.
        """
        reservation = self._accumulator.reservation(queue, size_bytes, _no_waiter)
        try:
            self._accumulator.ask_for(reservation)
            if not reservation.granted:
                # Batches that linger are sent now, to free their memory.
                self.wake_sender()
                yield reservation
            begun = begin(reservation, self.now_ms())
        except BaseException:
            self._accumulator.cancel(reservation)
            raise
        self.wake_sender()
        return begun

    def _callback_for(
        self, queue: PartitionQueue, on_delivery: OnDelivery | None
    ) -> OnDelivery | None:
        """The callback for the outcome: interceptors first, as in Kafka, which get the partition in any case."""
        interceptors = self._interceptors
        if not interceptors.sees_acknowledgements:
            return on_delivery
        return Acknowledgement(interceptors, queue.key, on_delivery)


def _takes_steps(*_: Any) -> None:
    """The `try_send` of a producer with interceptors, serializers or a partitioner of the program."""


def _no_waiter() -> None:
    """The `wake` of a reservation that is not waited for yet."""


def _with_header_pairs(record: ProducerRecord) -> ProducerRecord:
    """The record with its headers as pairs, as interceptors expect; wrong headers stay, and are refused later."""
    try:
        return record._replace(headers=read_headers(record.headers))
    except SerializationError:
        return record
