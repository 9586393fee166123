"""The sticky partition, to which records without a key go until it has got batch.size bytes (KIP-794).

Not safe for threads by itself: callers hold the accumulator's lock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate

from ottla.client.state.metadata import ClusterMetadata
from ottla.model import NO_LEADER

NO_PARTITION = -1


class StickyTopic:
    """The sticky partition of a topic, and how many bytes it has got so far."""

    __slots__ = ("_limits", "_partitions", "partition", "produced_bytes")

    def __init__(self) -> None:
        self.partition = NO_PARTITION
        self.produced_bytes = 0
        # The partitions to choose from, with the running sum of their weights; empty: all have the same weight.
        self._limits: list[int] = []
        self._partitions: list[int] = []

    def choose(self, available: tuple[int, ...], count: int, random_below: RandomBelow) -> None:
        """Draw the next partition, which may be the same one."""
        self.produced_bytes = 0
        if self._limits:
            drawn = random_below(self._limits[-1])
            self.partition = self._partitions[bisect_right(self._limits, drawn)]
        elif available:
            self.partition = available[random_below(len(available))]
        else:
            # No partition has a leader: records wait in any of them.
            self.partition = random_below(count)

    def weigh(self, queue_lengths: Mapping[int, int], all_count: int) -> None:
        """Prefer partitions with short queues; `all_count` also counts partitions that are not to be chosen.

        Queues of 0, 3 and 1 batches give weights 4, 1 and 3: the longest queue can still be chosen.
        """
        self._limits, self._partitions = [], []
        if not queue_lengths or all_count < 2:
            return
        lengths = list(queue_lengths.values())
        longest = max(lengths)
        if min(lengths) == longest and len(lengths) == all_count:
            return
        self._partitions = list(queue_lengths)
        self._limits = list(accumulate(longest + 1 - length for length in lengths))


RandomBelow = Callable[[int], int]
"""A random number from 0 up to, not including, its argument."""


class Sticky:
    """The sticky partitions of all topics.

    When the current partition has no open batch, the caller counts its last batch with `produced` and asks for
    `current` again. A switch waits until then, so that it sends no batch that is not full.
    """

    def __init__(
        self,
        *,
        batch_size_bytes: int,
        random_below: RandomBelow,
        is_adaptive: bool = True,
        availability_timeout_ms: float = 0,
    ) -> None:
        self._limit_bytes = max(batch_size_bytes, 1)
        self._random_below = random_below
        self._is_adaptive = is_adaptive
        self._availability_timeout_ms = availability_timeout_ms
        self._topics: dict[str, StickyTopic] = {}
        # Node id → when batches were last sent to it, and when batches were last ready for it.
        self._drained_ms: dict[int, float] = {}
        self._ready_ms: dict[int, float] = {}

    def current(self, topic: str, cluster: ClusterMetadata) -> int:
        """The partition for the next record without a key."""
        sticky = self._topic(topic)
        if sticky.partition == NO_PARTITION:
            self._choose(sticky, topic, cluster)
        return sticky.partition

    def _topic(self, topic: str) -> StickyTopic:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = StickyTopic()
        return found

    def produced(self, topic: str, size_bytes: int, cluster: ClusterMetadata) -> None:
        """Count the bytes of a batch that the current partition got; after batch.size bytes draw another."""
        sticky = self._topics[topic]
        sticky.produced_bytes += size_bytes
        if sticky.produced_bytes >= self._limit_bytes:
            self._choose(sticky, topic, cluster)

    def _choose(self, sticky: StickyTopic, topic: str, cluster: ClusterMetadata) -> None:
        count = len(cluster.topics[topic].partitions)
        sticky.choose(cluster.available(topic), count, self._random_below)

    # Load

    def node_drained(self, node_id: int, now_ms: float) -> None:
        """Batches were ready for the node, and were sent."""
        self._drained_ms[node_id] = self._ready_ms[node_id] = now_ms

    def node_not_ready(self, node_id: int, now_ms: float) -> None:
        """Batches were ready for the node, and could not be sent."""
        self._drained_ms.setdefault(node_id, now_ms)
        self._ready_ms[node_id] = now_ms

    def _is_slow(self, node_id: int) -> bool:
        if self._availability_timeout_ms <= 0 or node_id not in self._ready_ms:
            return False
        waited_ms = self._ready_ms[node_id] - self._drained_ms[node_id]
        return waited_ms > self._availability_timeout_ms

    def update_loads(
        self, topic: str, queue_lengths: Mapping[int, int], cluster: ClusterMetadata
    ) -> None:
        """Note how many batches wait, for all partitions that ever had a batch."""
        known = cluster.topics.get(topic)
        if known is None or not self._is_adaptive:
            return
        sticky = self._topic(topic)
        # A partition that is missing there, since it had no batch yet, would never be chosen.
        if len(queue_lengths) < len(known.partitions):
            sticky.weigh({}, 0)
            return
        usable = {}
        for partition, length in queue_lengths.items():
            leader = cluster.leader_of(topic, partition)
            # A slow node is chosen again when its queue is empty: otherwise it could never become quick again.
            if leader != NO_LEADER and not (length and self._is_slow(leader)):
                usable[partition] = length
        sticky.weigh(usable, len(queue_lengths))
