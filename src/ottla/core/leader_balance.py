"""Which node should lead which partition, where any live node can lead any partition and moves have a price.

Partitions stay where they are as far as balance allows: of each topic every node leads as many as any other, give or
take one, and so it does of all topics together.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

PartitionKey = tuple[uuid.UUID, int]


class BalancedTopic(NamedTuple):
    """What the balance knows of a topic; `assignments` are the replicas that a client chose for its partitions."""

    name: str
    topic_id: uuid.UUID
    partition_count: int
    assignments: Sequence[Sequence[int]] = ()


def balanced_leaders(
    topics: Iterable[BalancedTopic], held: Mapping[PartitionKey, int], live: Sequence[int]
) -> dict[PartitionKey, int]:
    """The node for each partition; `held` has the live nodes that lead now, and the wishes for those without a leader.

    Every node that knows the same comes to the same result. Without a live node there is no leader.
    """
    if not live:
        return {}
    nodes = sorted(live)
    shares = []
    totals = dict.fromkeys(nodes, 0)
    for topic in sorted(topics, key=lambda each: each.name):
        share = _Share(topic, held, nodes, totals)
        share.place_rest(totals)
        shares.append(share)
    _balance_totals(shares, totals, nodes)
    return {
        (share.topic.topic_id, partition): node
        for share in shares
        for partition, node in enumerate(share.leaders)
    }


class _Share:
    """The partitions of a topic, by the node that is to lead them."""

    def __init__(
        self,
        topic: BalancedTopic,
        held: Mapping[PartitionKey, int],
        nodes: Sequence[int],
        totals: dict[int, int],
    ) -> None:
        self.topic = topic
        self._nodes = nodes
        self._led: dict[int, list[int]] = {node: [] for node in nodes}  # without chosen leaders
        self.leaders: list[int] = [-1] * topic.partition_count
        self._rest: list[int] = []
        for partition in range(topic.partition_count):
            chosen = self._chosen(partition)
            if chosen is not None:
                self.leaders[partition] = chosen
                totals[chosen] += 1
                continue
            holder = held.get((topic.topic_id, partition))
            if holder in self._led:
                self._give(partition, holder, totals)
            else:
                self._rest.append(partition)

    def _chosen(self, partition: int) -> int | None:
        """The first live replica that a client chose."""
        if partition >= len(self.topic.assignments):
            return None
        chosen = self.topic.assignments[partition]
        return next((node for node in chosen if node in self._led), None)

    def _give(self, partition: int, node: int, totals: dict[int, int]) -> None:
        self._led[node].append(partition)
        self.leaders[partition] = node
        totals[node] += 1

    def count(self, node: int) -> int:
        return len(self._led[node])

    def place_rest(self, totals: dict[int, int]) -> None:
        """Gives partitions without a leader to the nodes with the fewest, then evens the topic out."""
        # Not every topic begins with the same node.
        first = zlib.crc32(self.topic.name.encode()) % len(self._nodes)
        order = {node: (place - first) % len(self._nodes) for place, node in enumerate(self._nodes)}
        for partition in self._rest:
            fewest = min(
                self._nodes, key=lambda node: (self.count(node), totals[node], order[node])
            )
            self._give(partition, fewest, totals)
        while True:
            most = max(self._nodes, key=lambda node: (self.count(node), totals[node], order[node]))
            fewest = min(
                self._nodes, key=lambda node: (self.count(node), totals[node], order[node])
            )
            if self.count(most) - self.count(fewest) <= 1:
                return
            self.move(most, fewest, totals)

    def move(self, giver: int, taker: int, totals: dict[int, int]) -> None:
        totals[giver] -= 1
        self._give(self._led[giver].pop(), taker, totals)


def _balance_totals(shares: Sequence[_Share], totals: dict[int, int], nodes: Sequence[int]) -> None:
    """Moves single partitions from the node with the most to that with the fewest; topics stay even."""
    moved = True
    while moved:
        moved = False
        for share in shares:
            most = max(nodes, key=lambda node: (totals[node], node))
            fewest = min(nodes, key=lambda node: (totals[node], node))
            if totals[most] - totals[fewest] <= 1:
                return
            if share.count(most) > share.count(fewest):
                share.move(most, fewest, totals)
                moved = True
