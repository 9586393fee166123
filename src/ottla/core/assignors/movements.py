"""What was moved between whom while an assignment is balanced."""

from __future__ import annotations

from ottla.core.assignors.java_order import PartitionHashSet
from ottla.model import TopicPartition

Pair = tuple[str, str]


class Movements:
    """For every partition that is not where it was first: from whom, to whom."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, Pair] = {}
        self._moved: dict[tuple[str, Pair], PartitionHashSet] = {}

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Which partition to move where this one should go from source to target.

        Rather than that two members exchange partitions of a topic, one moves back that came the other way.
        """
        if partition in self._pairs:
            source = self._pairs[partition][0]
        back = self._moved.get((partition.topic, (target, source)))
        return partition if back is None else TopicPartition(partition.topic, back.first())

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note a movement; one that ends where it began is forgotten."""
        earlier = self._pairs.pop(partition, None)
        if earlier is not None:
            source = earlier[0]
            moved = self._moved[partition.topic, earlier]
            moved.remove(partition.partition)
            if not moved:
                del self._moved[partition.topic, earlier]
        if source != target:
            self._pairs[partition] = source, target
            key = partition.topic, (source, target)
            self._moved.setdefault(key, PartitionHashSet(partition.topic)).add(partition.partition)
