"""The moves of partitions between members while an assignment is balanced."""

from __future__ import annotations

from ottla.core.assignors.java_order import PartitionHashSet
from ottla.model import TopicPartition

Pair = tuple[str, str]


class Movements:
    """For every moved partition, its first owner and its present one."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, Pair] = {}
        self._moved: dict[tuple[str, Pair], PartitionHashSet] = {}

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move from source to target in place of this one.

        If a partition of the same topic moved from target to source before, that one moves back: two members must
        not exchange partitions.
        """
        if partition in self._pairs:
            source = self._pairs[partition][0]
        back = self._moved.get((partition.topic, (target, source)))
        return partition if back is None else TopicPartition(partition.topic, back.first())

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        """Records a move; a partition that is back at its first owner has not moved."""
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
