"""Who leads which partition.

Every partition has an order of all nodes, which follows from the topic's name and the partition's number, so that the
partitions of a topic and the first partitions of many topics are spread alike; who creates a topic may choose another
one. The first node of the order is the preferred leader. The leader is the first live one, unless the partition was
moved: then it stays where it was moved to as long as that node lives. A node that was lost and comes back leads
nothing at first, as in Kafka; an election of preferred leaders gives it its share again.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Sequence

from ottla.core.catalog import Topic
from ottla.model import NO_LEADER


class Leadership:
    """The nodes that there are, and what each of them leads."""

    def __init__(self) -> None:
        self.live: dict[int, None] = {}
        self._known: list[int] = []
        self._orders: list[tuple[int, ...]] = []
        self._moved: dict[tuple[uuid.UUID, int], int] = {}
        # The nodes that were away when a partition was made.
        self._absent: dict[tuple[uuid.UUID, int], tuple[int, ...]] = {}

    @property
    def known(self) -> list[int]:
        """Every node that was ever there."""
        return self._known

    def add(self, node_id: int, topics: Iterable[Topic]) -> None:
        """A node is there: a new one gets a share of what there is, one that is back takes nothing from others."""
        if node_id in self._known:
            self._hold(node_id, topics)
        else:
            self._known = sorted([*self._known, node_id])
            self._orders = _orders(self._known)
        self.live[node_id] = None
        self.live = dict.fromkeys(sorted(self.live))

    def _hold(self, node_id: int, topics: Iterable[Topic]) -> None:
        """Leaves partitions where they are that would else go to a node that is back."""
        for topic in topics:
            for partition in range(topic.partition_count):
                key = (topic.topic_id, partition)
                leader = self.leader_of(topic, partition)
                order = self.order_of(topic, partition)
                if leader != NO_LEADER and order.index(node_id) < order.index(leader):
                    self._moved[key] = leader

    def remove(self, node_id: int) -> None:
        """A node is lost: what it led goes to others, and nothing else changes."""
        del self.live[node_id]
        self._moved = {key: leader for key, leader in self._moved.items() if leader != node_id}

    def forget(self, topic_id: uuid.UUID) -> None:
        """A topic is deleted."""
        self._moved = {key: leader for key, leader in self._moved.items() if key[0] != topic_id}
        self._absent = {key: absent for key, absent in self._absent.items() if key[0] != topic_id}

    def place_new(self, topic: Topic, first_partition: int) -> None:
        """Partitions were made, from one on: nodes that are away now come last for them."""
        absent = tuple(node_id for node_id in self._known if node_id not in self.live)
        if absent:
            for partition in range(first_partition, topic.partition_count):
                self._absent[topic.topic_id, partition] = absent

    def order_of(self, topic: Topic, partition: int) -> tuple[int, ...]:
        """All nodes that were ever there, in the order in which they are to lead the partition."""
        order = self._orders[(zlib.crc32(topic.name.encode()) + partition) % len(self._orders)]
        if self._absent:
            absent = self._absent.get((topic.topic_id, partition), ())
            order = _with_first(order, [node_id for node_id in order if node_id not in absent])
        if partition < len(topic.assignments):
            order = _with_first(order, topic.assignments[partition])
        return order

    def leader_of(self, topic: Topic, partition: int) -> int:
        """The node that leads; NO_LEADER if none is live."""
        return self._leader(topic, partition, self.order_of(topic, partition))

    def _leader(self, topic: Topic, partition: int, order: tuple[int, ...]) -> int:
        moved = self._moved.get((topic.topic_id, partition)) if self._moved else None
        if moved is not None:
            return moved
        for node_id in order:
            if node_id in self.live:
                return node_id
        return NO_LEADER

    def preferred_leader_of(self, topic: Topic, partition: int) -> int:
        """The node that is to lead when it can."""
        return self.order_of(topic, partition)[0]

    def place(self, topic: Topic, partition: int) -> tuple[int, tuple[int, ...]]:
        """The leader, and the replicas that clients are told: the preferred leader first, dead ones included.

        In truth the engine has it and any node can lead; one that does without being a replica takes a place there.
        """
        order = self.order_of(topic, partition)
        leader = self._leader(topic, partition, order)
        replicas = order[: topic.replication_factor]
        if leader not in replicas and leader != NO_LEADER:
            replicas = (leader, *replicas[:-1])
        return leader, replicas

    def move(self, topic: Topic, partition: int, node_id: int) -> None:
        """Makes a live node the leader."""
        assert node_id in self.live, f"node {node_id} is not live"
        self._moved.pop((topic.topic_id, partition), None)
        if self.leader_of(topic, partition) != node_id:
            self._moved[topic.topic_id, partition] = node_id


def _with_first(order: tuple[int, ...], first: Sequence[int]) -> tuple[int, ...]:
    return (
        *(node_id for node_id in first if node_id in order),
        *(node_id for node_id in order if node_id not in first),
    )


def _orders(known: list[int]) -> list[tuple[int, ...]]:
    """The orders that partitions take in turns: every node is first as often, and every other one second behind it.

    Kafka assigns replicas in the same way. What a lost node led is so spread over all that are left.
    """
    count = len(known)
    return [
        (
            known[first],
            *(known[(first + 1 + (shift + j) % (count - 1)) % count] for j in range(count - 1)),
        )
        for shift in range(max(count - 1, 1))
        for first in range(count)
    ]
