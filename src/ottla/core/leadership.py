"""The leaders of partitions.

Every partition has an order of all nodes. It follows from the topic's name and the partition's number, so that the
partitions of one topic and the first partitions of many topics are spread evenly; the client that creates a topic may
choose another order. The first node of the order is the preferred leader. The leader is the first live node, unless the
partition was moved: then it stays with that node as long as the node lives. A node that was lost and comes back leads
nothing at first, as in Kafka; an election of preferred leaders gives it its share again.

With workers each node has a store of its own: the first node of the order owns the partition, and no other can lead it.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.core.catalog import Topic
from ottla.model import NO_LEADER


class Owners:
    """The owner of each partition among nodes that have a store each; it does not depend on who is live."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        self.node_ids: Final = tuple(sorted(node_ids))
        self._orders = _orders(list(self.node_ids))

    def order_of(
        self, name: str, partition: int, assignments: Sequence[Sequence[int]] = ()
    ) -> tuple[int, ...]:
        """All nodes, the owner first; `assignments` are the replicas that a client chose for the topic."""
        order = self._orders[(zlib.crc32(name.encode()) + partition) % len(self._orders)]
        if partition < len(assignments):
            order = _with_first(order, assignments[partition])
        return order

    def owner_of(self, name: str, partition: int, assignments: Sequence[Sequence[int]] = ()) -> int:
        return self.order_of(name, partition, assignments)[0]

    def place(self, topic: Topic, partition: int) -> tuple[int, tuple[int, ...]]:
        """The owner, and the replicas that clients see, the owner first. In fact only the owner has the data."""
        order = self.order_of(topic.name, partition, topic.assignments)
        return order[0], order[: topic.replication_factor]


class Leadership:
    """The nodes of one process, and the partitions that each of them leads."""

    def __init__(self) -> None:
        self.live: dict[int, None] = {}
        self._known: list[int] = []
        self._orders: list[tuple[int, ...]] = []
        self._moved: dict[tuple[uuid.UUID, int], int] = {}
        # The nodes that were not live when a partition was created.
        self._absent: dict[tuple[uuid.UUID, int], tuple[int, ...]] = {}

    @property
    def known(self) -> list[int]:
        """Every node that has ever been live and was not retired."""
        return self._known

    def add(self, node_id: int, topics: Iterable[Topic]) -> None:
        """A node is live: a new one gets a share of the partitions, one that is back takes none from others."""
        if node_id in self._known:
            self._hold(node_id, topics)
        else:
            self._known = sorted([*self._known, node_id])
            self._orders = _orders(self._known)
        self.live[node_id] = None
        self.live = dict.fromkeys(sorted(self.live))

    def _hold(self, node_id: int, topics: Iterable[Topic]) -> None:
        """Keeps partitions with their leaders that would go to a node that is back."""
        for topic in topics:
            for partition in range(topic.partition_count):
                key = (topic.topic_id, partition)
                leader = self.leader_of(topic, partition)
                order = self.order_of(topic, partition)
                if leader != NO_LEADER and order.index(node_id) < order.index(leader):
                    self._moved[key] = leader

    def remove(self, node_id: int) -> None:
        """A node is lost: its partitions go to other nodes, and nothing else changes."""
        del self.live[node_id]
        self._moved = {key: leader for key, leader in self._moved.items() if leader != node_id}

    def retire(self, node_id: int, topics: Iterable[Topic]) -> None:
        """A node that is not live is forgotten; partitions keep their leaders."""
        assert node_id not in self.live, f"node {node_id} is live"
        leaders = [
            (topic, partition, self.leader_of(topic, partition))
            for topic in topics
            for partition in range(topic.partition_count)
        ]
        self._known = [known for known in self._known if known != node_id]
        self._orders = _orders(self._known)
        for topic, partition, leader in leaders:
            if leader != NO_LEADER:
                self.move(topic, partition, leader)

    def forget(self, topic_id: uuid.UUID) -> None:
        """A topic is deleted."""
        self._moved = {key: leader for key, leader in self._moved.items() if key[0] != topic_id}
        self._absent = {key: absent for key, absent in self._absent.items() if key[0] != topic_id}

    def place_new(self, topic: Topic, first_partition: int) -> None:
        """Partitions were created, beginning with the first: nodes that are not live come last in their orders."""
        absent = tuple(node_id for node_id in self._known if node_id not in self.live)
        if absent:
            for partition in range(first_partition, topic.partition_count):
                self._absent[topic.topic_id, partition] = absent

    def order_of(self, topic: Topic, partition: int) -> tuple[int, ...]:
        """All known nodes, in the order in which they lead the partition."""
        order = self._orders[(zlib.crc32(topic.name.encode()) + partition) % len(self._orders)]
        if self._absent:
            absent = self._absent.get((topic.topic_id, partition), ())
            order = _with_first(order, [node_id for node_id in order if node_id not in absent])
        if partition < len(topic.assignments):
            order = _with_first(order, topic.assignments[partition])
        return order

    def leader_of(self, topic: Topic, partition: int) -> int:
        """The leader; NO_LEADER if no node is live."""
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
        """The node that leads if it is live."""
        return self.order_of(topic, partition)[0]

    def place(self, topic: Topic, partition: int) -> tuple[int, tuple[int, ...]]:
        """The leader, and the replicas that clients see: the preferred leader first, lost nodes included.

        In fact the storage engine has the data and any node can lead; a leader that is no replica is shown as one.
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
    """The orders of nodes, as Kafka assigns replicas: every node is first equally often, with each other one as second.

    So the partitions of a lost node are spread over all the others.
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
