"""From a call of `send` to a record in a batch: interceptors, serializers, partitioner, memory.

The same steps serve both faces of the producer: they are generators that yield what has to be waited for, and the
faces wait, by blocking or on the loop. A record that needs no waiting takes the short way, `try_send`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ottla.client.arguments import check_callback, check_record
from ottla.client.model import Headers, ProducerRecord
from ottla.client.plugins.interceptors import Acknowledgement, ProducerInterceptors
from ottla.client.plugins.partitioners import DefaultPartitioner, Partitioner, StickyPartitioner
from ottla.client.plugins.serializers import BytesSerializer, Serializer
from ottla.client.send.delivery import RecordFuture, SentRecords, size_of
from ottla.client.send.encoded_batches import check_ready_made, unchanging
from ottla.client.send.record_sizes import read_headers, record_bound_bytes
from ottla.client.send.record_timestamps import SECONDS_END, SecondsWatch, current_timestamp_ms
from ottla.client.state.metadata import ClusterMetadata
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.memory import Reservation
from ottla.client.state.producer.partition_queue import Many, PartitionQueue
from ottla.client.state.producer.producer_batch import OnDelivery, ProducerBatch
from ottla.client.state.producer.sticky import Sticky
from ottla.errors import ErrorCode, KafkaError, SerializationError, exception_for
from ottla.model import TopicPartition
from ottla.records.batch import HEADER_BYTES
from ottla.records.client_kernel import longest_bytes, partition_of_key, partitions_of_keys
from ottla.records.record import Buffer


class TopicWanted(NamedTuple):
    """Wait until the topic is known, with this partition if there is one."""

    topic: str
    partition: int | None


Wanted: TypeAlias = TopicWanted | Reservation
Steps: TypeAlias = Generator[Wanted, None, RecordFuture]
ManySteps: TypeAlias = Generator[Wanted, None, SentRecords]


class TopicQueues:
    """The queues of a topic's partitions, for those who send."""

    __slots__ = ("count", "queues", "sticky_batch", "sticky_queue")

    def __init__(self, queues: Sequence[PartitionQueue]) -> None:
        self.queues = queues
        self.count = len(queues)
        self.sticky_queue: PartitionQueue | None = None
        """Where records without a key go now."""
        self.sticky_batch: ProducerBatch | None = None
        """The last batch that was begun for them."""


class Writer:
    """Puts records into the accumulator."""

    def __init__(
        self,
        accumulator: Accumulator,
        sticky: Sticky,
        key_serializer: Serializer,
        value_serializer: Serializer,
        partitioner: Partitioner,
        interceptors: ProducerInterceptors,
        on_refused: Callable[[Exception], None],
        wake_sender: Callable[[], None],
        now_ms: Callable[[], float],
    ) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self._accumulator = accumulator
        self._sticky = sticky
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = partitioner
        self._interceptors = interceptors
        self._on_refused = on_refused
        self._wake_sender = wake_sender
        self._now_ms = now_ms
        self._cluster = ClusterMetadata()
        self._seconds_watch = SecondsWatch()
        self._ignores_keys = isinstance(partitioner, StickyPartitioner)
        self._is_standard = isinstance(partitioner, DefaultPartitioner | StickyPartitioner)
        self.is_plain = (
            self._is_standard
            and not interceptors
            and type(key_serializer) is BytesSerializer
            and type(value_serializer) is BytesSerializer
        )
        """Whether bytes go into batches as they are."""

    def update(self, cluster: ClusterMetadata) -> None:
        """The cluster changed: topics came, went or grew."""
        self._cluster = cluster
        for name, topic in cluster.topics.items():
            known = self.topics.get(name)
            count = len(topic.partitions)
            if known is None or known.count != count:
                queue_of = self._accumulator.queue
                self.topics[name] = TopicQueues(
                    tuple(queue_of(TopicPartition(name, number)) for number in range(count))
                )
        for name in [name for name in self.topics if name not in cluster.topics]:
            del self.topics[name]

    # One record

    def try_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
        on_delivery: Any,
    ) -> RecordFuture | None:
        """Send a record of bytes if nothing has to be waited for; None: take the `steps`."""
        try:
            known = self.topics.get(topic)
            if known is None or not self.is_plain:
                return None
            if timestamp_ms is not None and (
                type(timestamp_ms) is not int or timestamp_ms < SECONDS_END
            ):
                return None
            if on_delivery is not None and not callable(on_delivery):
                return None
            if partition is None:
                if key is None or self._ignores_keys:
                    queue = known.sticky_queue
                    if queue is None:
                        return None
                elif type(key) is bytes:
                    queue = known.queues[partition_of_key(key, known.count)]
                else:
                    return None
            # True and False are numbers to Python; to compare with both is quicker than to ask for the type.
            elif 0 <= partition < known.count and partition is not True and partition is not False:
                queue = known.queues[partition]
            else:
                return None
            return self._accumulator.append_unlocked(
                queue, timestamp_ms, key, value, headers or (), on_delivery
            )
        except (TypeError, ValueError, AttributeError):
            # The steps find out what is wrong with it.
            return None

    def steps(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> Steps:
        """Send a record, waiting for what it takes."""
        check_callback(on_delivery)
        queue: PartitionQueue | None = None
        interceptors = self._interceptors
        if interceptors.sees_sends:
            record = interceptors.on_send(_with_pairs(record))
        try:
            known = yield from self._known(record.topic, record.partition, record.timestamp_ms)
            headers = read_headers(record.headers)
            key = self._serialize(self._key_serializer, "key", record, record.key, headers)
            value = self._serialize(self._value_serializer, "value", record, record.value, headers)
            self._check_size(record.topic, key, value, headers)
            queue = self._queue_of(known, record, key, value)
            fields = (record.timestamp_ms, key, value, headers)
            future = self._accumulator.append(queue, *fields, self._told(on_delivery, queue))
            if future is not None:
                return future
            queue = self._queue_for_new_batch(known, record, key, value, queue)
            told = self._told(on_delivery, queue)
            future = self._accumulator.append(queue, *fields, told)
            if future is not None:
                return future
            size_bytes = record_bound_bytes(key, value, headers)
            reservation = yield from self._memory(queue, size_bytes)
            future = self._accumulator.append_new(queue, *fields, told, reservation, self._now_ms())
            if queue is known.sticky_queue:
                known.sticky_batch = queue.open
            self._wake_sender()
            return future
        except Exception as error:
            interceptors.on_send_error(
                record, None if queue is None else queue.key.partition, error
            )
            self._on_refused(error)
            raise

    def _known(
        self, topic: str, partition: int | None, timestamp_ms: int | None
    ) -> Generator[Wanted, None, TopicQueues]:
        check_record(topic, partition, timestamp_ms)
        if timestamp_ms is not None:
            self._seconds_watch.look(topic, timestamp_ms)
        while True:
            known = self.topics.get(topic)
            if known is not None and known.count and (partition is None or partition < known.count):
                return known
            if self._accumulator.refusal is not None:
                raise self._accumulator.refusal()
            yield TopicWanted(topic, partition)

    def _memory(
        self, queue: PartitionQueue, size_bytes: int
    ) -> Generator[Wanted, None, Reservation]:
        reservation = self._accumulator.reserve(queue, size_bytes, _nobody)
        if not reservation.granted:
            # Batches that linger are sent now, because somebody waits for their memory.
            self._wake_sender()
            try:
                yield reservation
            except BaseException:
                self._accumulator.cancel(reservation)
                raise
        return reservation

    def _serialize(
        self,
        serializer: Serializer,
        what: str,
        record: ProducerRecord,
        thing: Any,
        headers: Headers,
    ) -> bytes | None:
        try:
            data = serializer.serialize(record.topic, headers, thing)
        except SerializationError as error:
            if type(error) is not SerializationError:
                raise  # one of the user's own
            raise SerializationError(
                f"the {what} of a record for {record.topic}: {error}"
            ) from error
        except Exception as error:
            raise SerializationError(
                f"the {what} of a record for {record.topic} cannot be serialized: {error!r}"
            ) from error
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise SerializationError(
            f"the {what}.serializer made {type(data).__name__} of a {type(thing).__name__}, not bytes"
        )

    def _check_size(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        settings = self._accumulator.settings
        size_bytes = record_bound_bytes(key, value, headers)
        for option, limit_bytes in (
            ("max.request.size", settings.max_request_bytes),
            ("buffer.memory", settings.memory_bytes),
        ):
            if size_bytes > limit_bytes:
                raise exception_for(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"The record has {size_bytes} bytes, and {option} is {limit_bytes}.",
                    api="Produce",
                    topic=topic,
                )

    def _told(self, on_delivery: OnDelivery | None, queue: PartitionQueue) -> OnDelivery | None:
        """Who is told of the outcome: interceptors first, as in Kafka, which learn the partition in any case."""
        interceptors = self._interceptors
        if not interceptors.sees_acknowledgements:
            return on_delivery
        return Acknowledgement(interceptors, queue.key, on_delivery)

    # Partitions

    def _queue_of(
        self, known: TopicQueues, record: ProducerRecord, key: bytes | None, value: bytes | None
    ) -> PartitionQueue:
        partition = record.partition
        if partition is None:
            partition = self._partitioner.partition(
                record.topic, record.key, key, record.value, value, self._cluster
            )
            if partition is None:
                return self._sticky_queue(record.topic, known)
            if not 0 <= partition < known.count:
                raise ValueError(
                    f"the partitioner chose partition {partition!r} of {record.topic}, which has "
                    f"{known.count} partitions"
                )
        return known.queues[partition]

    def _queue_for_new_batch(
        self,
        known: TopicQueues,
        record: ProducerRecord,
        key: bytes | None,
        value: bytes | None,
        queue: PartitionQueue,
    ) -> PartitionQueue:
        """A record that needs a new batch may go elsewhere."""
        if record.partition is not None:
            return queue
        on_new_batch = getattr(self._partitioner, "on_new_batch", None)
        if on_new_batch is not None:
            on_new_batch(record.topic, self._cluster, queue.key.partition)
        elif not (self._is_standard and queue is known.sticky_queue):
            return queue
        return self._queue_of(known, record, key, value)

    def _sticky_queue(self, topic: str, known: TopicQueues) -> PartitionQueue:
        """The queue for records without a key; another one when the last has got a batch's worth (KIP-794)."""
        sticky = self._sticky
        with self._accumulator.lock:
            queue = known.sticky_queue
            if queue is not None and queue.open is not None:
                return queue
            batch, known.sticky_batch = known.sticky_batch, None
            lengths = {
                each.key.partition: len(each.batches) for each in known.queues if each.next_order
            }
            sticky.update_loads(topic, lengths, self._cluster)
            sticky.current(topic, self._cluster)
            if batch is not None:
                sticky.produced(topic, HEADER_BYTES + batch.size_bytes, self._cluster)
            # Modulo, because a topic that was made anew may have fewer partitions.
            partition = sticky.switch_if_due(topic, self._cluster) % known.count
            known.sticky_queue = queue = known.queues[partition]
            return queue

    def steps_encoded(self, topic: str, partition: int, batch: Buffer, check_crc: bool) -> Steps:
        """Send a batch that is encoded already, behind what was sent to its partition before."""
        try:
            check_ready_made(batch, self._accumulator.settings, check_crc=check_crc)
            known = yield from self._known(topic, partition, None)
            queue = known.queues[partition]
            reservation = yield from self._memory(queue, len(batch))
            future = self._accumulator.append_encoded(
                queue, unchanging(batch), reservation, self._now_ms()
            )
            self._wake_sender()
            return future
        except Exception as error:
            self._on_refused(error)
            raise

    # Many records

    def steps_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
    ) -> ManySteps:
        """Send records in bulk, each batch in one go."""
        values = values if isinstance(values, list | tuple) else list(values)
        if keys is not None:
            keys = keys if isinstance(keys, list | tuple) else list(keys)
            if len(keys) != len(values):
                raise ValueError(f"there are {len(keys)} keys for {len(values)} values")
        if self._interceptors or not (self._is_standard or partition is not None):
            return (
                yield from self._one_by_one(topic, values, keys, partition, headers, timestamp_ms)
            )
        sent = SentRecords(0, (), None)
        try:
            known = yield from self._known(topic, partition, timestamp_ms)
            read = read_headers(headers)
            values, keys = self._all_bytes(topic, values, keys, read)
            timestamp = current_timestamp_ms() if timestamp_ms is None else timestamp_ms
            sent = SentRecords(timestamp, values, keys)
            for queue, many in self._by_queue(
                known, Many(timestamp, values, keys, read, range(len(values))), partition
            ):
                yield from self._send_part(topic, known, queue, sent, many)
            return sent
        except Exception as error:
            if isinstance(error, KafkaError):
                sent.blame(error, len(values))
            self._on_refused(error)
            raise

    def _one_by_one(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
    ) -> ManySteps:
        futures = []
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            record = ProducerRecord(
                topic, value, key, partition, read_headers(headers), timestamp_ms
            )
            try:
                futures.append((yield from self.steps(record, None)))
            except KafkaError as error:
                SentRecords.of(futures).blame(error, len(values))
                raise
        return SentRecords.of(futures)

    def _all_bytes(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        headers: Headers,
    ) -> tuple[Sequence[bytes | None], Sequence[bytes | None] | None]:
        """Values and keys as bytes, none too large."""
        record = ProducerRecord(topic)

        def serialized(
            serializer: Serializer, what: str, things: Sequence[Any]
        ) -> tuple[Sequence[Any], int]:
            longest = longest_bytes(things) if type(serializer) is BytesSerializer else None
            if longest is None:
                things = [
                    self._serialize(serializer, what, record, each, headers) for each in things
                ]
                longest = max(map(size_of, things), default=-1)
            return things, longest

        values, longest = serialized(self._value_serializer, "value", values)
        if keys is not None:
            keys, longest_key = serialized(self._key_serializer, "key", keys)
            longest += longest_key
        if longest + 100 > self._accumulator.plain_limit_bytes or headers:
            for index, value in enumerate(values):
                self._check_size(topic, None if keys is None else keys[index], value, headers)
        return values, keys

    def _by_queue(
        self, known: TopicQueues, many: Many, partition: int | None
    ) -> list[tuple[PartitionQueue | None, Many]]:
        """The records by where they go; None: without a key."""
        if partition is not None:
            return [(known.queues[partition], many)]
        if many.keys is None or self._ignores_keys:
            return [(None, many)]
        places: dict[int, list[int]] = {}
        for position, number in enumerate(partitions_of_keys(many.keys, known.count)):
            found = places.get(number)
            if found is None:
                found = places[number] = []
            found.append(position)
        return [
            (
                None if number < 0 else known.queues[number],
                many._replace(
                    values=[many.values[position] for position in positions],
                    keys=[many.keys[position] for position in positions],
                    positions=positions,
                ),
            )
            for number, positions in places.items()
        ]

    def _send_part(
        self,
        topic: str,
        known: TopicQueues,
        fixed: PartitionQueue | None,
        sent: SentRecords,
        many: Many,
    ) -> Generator[Wanted, None, None]:
        accumulator = self._accumulator
        start = 0
        while start < len(many.values):
            queue = fixed or self._sticky_queue(topic, known)
            was_open = queue.open is not None
            added = accumulator.extend(queue, sent, many, start)
            start += added
            # Another thread may have opened a batch meanwhile, which took some or all.
            if was_open or added:
                # It is full now, if there is more to send: records without a key may go elsewhere then.
                continue
            key = None if many.keys is None else many.keys[start]
            size_bytes = record_bound_bytes(key, many.values[start], many.headers)
            reservation = yield from self._memory(queue, size_bytes)
            start += accumulator.extend_new(queue, sent, many, start, reservation, self._now_ms())
            if queue is known.sticky_queue:
                known.sticky_batch = queue.open
            self._wake_sender()


def _nobody() -> None:
    """Whom a grant of memory wakes, until somebody waits for it."""


def _with_pairs(record: ProducerRecord) -> ProducerRecord:
    """The headers as the pairs that interceptors expect; wrong ones stay as they are, to be refused with the rest."""
    try:
        return record._replace(headers=read_headers(record.headers))
    except SerializationError:
        return record
