"""From a call of `send_many` to records in batches, each batch filled in one call of the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ottla.client.arguments import sequence_of
from ottla.client.plugins.interceptors import ProducerInterceptors
from ottla.client.plugins.serializers import LookupPending
from ottla.client.send.delivery import RecordFuture, SentRecords
from ottla.client.send.partition_router import PartitionRouter, TopicQueues
from ottla.client.send.record_serializers import RecordSerializers
from ottla.client.send.record_sizes import read_headers, record_bound_bytes
from ottla.client.send.record_timestamps import current_timestamp_ms
from ottla.client.send.record_writer import RecordWriter, Steps
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.partition_queue import BulkRecords, PartitionQueue
from ottla.errors import KafkaError


class BulkWriter:
    """Puts many records into the accumulator at once."""

    def __init__(
        self,
        accumulator: Accumulator,
        router: PartitionRouter,
        serializers: RecordSerializers,
        interceptors: ProducerInterceptors,
        single: RecordWriter,
    ) -> None:
        """`single` writes the records one by one, where interceptors or a partitioner have to see each."""
        self._accumulator = accumulator
        self._router = router
        self._serializers = serializers
        self._interceptors = interceptors
        self._single = single

    def steps(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
    ) -> Steps[SentRecords]:
        """Send records that have the same headers and time."""
        values = _indexable(values, "values")
        keys = None if keys is None else _indexable(keys, "keys")
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"there are {len(keys)} keys for {len(values)} values")
        if self._interceptors or not (self._router.is_standard or partition is not None):
            return (
                yield from self._one_by_one(topic, values, keys, partition, headers, timestamp_ms)
            )
        sent = SentRecords(0, (), None)
        try:
            known = yield from self._single.topic_queues(topic, partition, timestamp_ms)
            pairs = read_headers(headers)
            while True:
                try:
                    keys, values = self._serializers.serialize_many(topic, pairs, keys, values)
                    break
                except LookupPending as pending:
                    needed = pending
                yield needed
            timestamp = current_timestamp_ms() if timestamp_ms is None else timestamp_ms
            sent = SentRecords(timestamp, values, keys)
            many = BulkRecords(timestamp, values, keys, pairs, range(len(values)))
            for queue, part in self._router.split_by_queue(known, many, partition):
                yield from self._send_part(topic, known, queue, sent, part)
            return sent
        except Exception as error:
            if isinstance(error, KafkaError):
                sent.blame(error, len(values))
            self._single.on_refused(error)
            raise

    def _one_by_one(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
    ) -> Steps[SentRecords]:
        futures: list[RecordFuture] = []
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            pairs = read_headers(headers)
            try:
                future = yield from self._single.steps(
                    topic, value, key, partition, pairs, timestamp_ms, None
                )
            except KafkaError as error:
                SentRecords.of(futures).blame(error, len(values))
                raise
            futures.append(future)
        return SentRecords.of(futures)

    def _send_part(
        self,
        topic: str,
        known: TopicQueues,
        fixed: PartitionQueue | None,
        sent: SentRecords,
        many: BulkRecords,
    ) -> Steps[None]:
        """Send records to one queue; without a fixed one, to the sticky queue, which changes from batch to batch."""
        accumulator = self._accumulator
        start = 0
        while start < len(many.values):
            queue = fixed or self._router.sticky_queue(topic, known)
            was_open = queue.open is not None
            added = accumulator.extend(queue, sent, many, start)
            start += added
            # Another thread may have opened a batch meanwhile, which took some or all.
            if was_open or added:
                # The batch is full, if records are left: those without a key may go to another partition now.
                continue
            key = None if many.keys is None else many.keys[start]
            size_bytes = record_bound_bytes(key, many.values[start], many.headers)
            begin = partial(accumulator.extend_new, queue, sent, many, start)
            start += yield from self._single.with_memory(queue, size_bytes, begin)
            known.began_batch(queue)


def _indexable(given: Iterable[Any], name: str) -> Sequence[Any]:
    sequence = sequence_of(given, name)
    return sequence if isinstance(sequence, list | tuple) else list(sequence)
