"""Which partition a record goes to, and the queues of a topic's partitions."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.model import ProducerRecord
from ottla.client.plugins.partitioners import DefaultPartitioner, Partitioner, StickyPartitioner
from ottla.client.state.metadata import ClusterMetadata
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.partition_queue import BulkRecords, PartitionQueue
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.client.state.producer.sticky import Sticky
from ottla.model import TopicPartition
from ottla.records.batch import HEADER_BYTES
from ottla.records.client_kernel import partitions_of_keys


class TopicQueues:
    """The queues of a topic's partitions."""

    __slots__ = ("count", "queues", "sticky_batch", "sticky_queue")

    def __init__(self, queues: Sequence[PartitionQueue]) -> None:
        self.queues = queues
        self.count = len(queues)
        self.sticky_queue: PartitionQueue | None = None
        """Where records without a key go now."""
        self.sticky_batch: ProducerBatch | None = None
        """The last batch that was begun for them."""

    def began_batch(self, queue: PartitionQueue) -> None:
        """A new batch was begun in this queue."""
        if queue is self.sticky_queue:
            self.sticky_batch = queue.open


class PartitionRouter:
    """Finds the queue of a record: by its partition, the partitioner, or the sticky partition (KIP-794)."""

    def __init__(self, accumulator: Accumulator, sticky: Sticky, partitioner: Partitioner) -> None:
        self.topics: dict[str, TopicQueues] = {}
        """The topics of the newest metadata."""
        self.ignores_keys = isinstance(partitioner, StickyPartitioner)
        self.is_standard = isinstance(partitioner, DefaultPartitioner | StickyPartitioner)
        """Whether the partitioner is one of ours, whose choice needs no call of it."""
        self._accumulator = accumulator
        self._sticky = sticky
        self._partitioner = partitioner
        self._cluster = ClusterMetadata()

    def update(self, cluster: ClusterMetadata) -> None:
        """Take over new metadata: topics were created or deleted, or got more partitions."""
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

    def queue_of(
        self, topic: TopicQueues, record: ProducerRecord, key: bytes | None, value: bytes | None
    ) -> PartitionQueue:
        """The queue of a record with this serialized key and value."""
        partition = record.partition
        if partition is None:
            partition = self._partitioner.partition(
                record.topic, record.key, key, record.value, value, self._cluster
            )
            if partition is None:
                return self.sticky_queue(record.topic, topic)
            if not 0 <= partition < topic.count:
                raise ValueError(
                    f"the partitioner chose partition {partition!r} of {record.topic}, which has "
                    f"{topic.count} partitions"
                )
        return topic.queues[partition]

    def queue_for_new_batch(
        self,
        topic: TopicQueues,
        record: ProducerRecord,
        key: bytes | None,
        value: bytes | None,
        queue: PartitionQueue,
    ) -> PartitionQueue:
        """The queue of a record for which `queue` has no open batch: another one may be chosen now."""
        if record.partition is not None:
            return queue
        on_new_batch = getattr(self._partitioner, "on_new_batch", None)
        if on_new_batch is not None:
            on_new_batch(record.topic, self._cluster, queue.key.partition)
        elif not (self.is_standard and queue is topic.sticky_queue):
            return queue
        return self.queue_of(topic, record, key, value)

    def sticky_queue(self, name: str, topic: TopicQueues) -> PartitionQueue:
        """The queue for records without a key; another one when the last has got a batch's worth (KIP-794)."""
        sticky = self._sticky
        with self._accumulator.lock:
            queue = topic.sticky_queue
            if queue is not None and queue.open is not None:
                return queue
            batch, topic.sticky_batch = topic.sticky_batch, None
            lengths = {
                each.key.partition: len(each.batches) for each in topic.queues if each.next_order
            }
            sticky.update_loads(name, lengths, self._cluster)
            if batch is not None:
                sticky.produced(name, HEADER_BYTES + batch.size_bytes, self._cluster)
            # Modulo, because a topic that was deleted and created again may have fewer partitions.
            partition = sticky.current(name, self._cluster) % topic.count
            topic.sticky_queue = queue = topic.queues[partition]
            return queue

    def split_by_queue(
        self, topic: TopicQueues, many: BulkRecords, partition: int | None
    ) -> list[tuple[PartitionQueue | None, BulkRecords]]:
        """Records of `send_many` by their queue; None: they have no key, and go to the sticky queue."""
        if partition is not None:
            return [(topic.queues[partition], many)]
        if many.keys is None or self.ignores_keys:
            return [(None, many)]
        positions_by_partition: dict[int, list[int]] = {}
        for position, number in enumerate(partitions_of_keys(many.keys, topic.count)):
            positions = positions_by_partition.get(number)
            if positions is None:
                positions = positions_by_partition[number] = []
            positions.append(position)
        return [
            (
                None if number < 0 else topic.queues[number],
                many._replace(
                    values=[many.values[position] for position in positions],
                    keys=[many.keys[position] for position in positions],
                    positions=positions,
                ),
            )
            for number, positions in positions_by_partition.items()
        ]
