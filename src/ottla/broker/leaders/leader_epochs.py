"""The leader epochs of partitions whose nodes have a store each: every node tells the others those of its own.

A store claims no partition with a lower epoch than it had at its opening, and nearly all with exactly that one
(ADR 0007). So a node tells that one, and the partitions that have another.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.ports import JsonValue, LogStore, PartitionRef

UNKNOWN_EPOCH: Final = -1
# Many partitions may get another epoch one after the other.
TELL_SECONDS: Final = 0.2

_Key = tuple[uuid.UUID, int]
_NO_PARTITION: Final = PartitionRef("", -1, uuid.UUID(int=0))


class _StoreEpochs(NamedTuple):
    """The epoch of a store's partitions, and of those that have another, by topic id and number."""

    first: int
    others: dict[_Key, int]


class LeaderEpochs:
    """The epochs of all nodes."""

    def __init__(self, store: LogStore) -> None:
        self._own = _StoreEpochs(store.epoch_of(_NO_PARTITION), {})
        self._elsewhere: dict[int, _StoreEpochs] = {}
        # Is given what the other nodes have to be told.
        self.tell: Callable[[JsonValue], None] = lambda told: None
        self._tells_soon = False

    def claimed(self, ref: PartitionRef, epoch: int) -> None:
        """A node of this process has claimed a partition."""
        if epoch != self._own.first:
            self._own.others[ref.topic_id, ref.partition] = epoch
            if not self._tells_soon:
                self._tells_soon = True
                asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell)

    def _tell(self) -> None:
        self._tells_soon = False
        self.tell(self.own)

    @property
    def own(self) -> JsonValue:
        """What the other nodes have to know; it replaces what they were told before."""
        others: list[JsonValue] = [
            [str(topic_id), partition, epoch]
            for (topic_id, partition), epoch in self._own.others.items()
        ]
        return {"first": self._own.first, "others": others}

    def told(self, node_id: int, epochs: Any) -> None:
        """What another node has told."""
        others = {
            (uuid.UUID(topic_id), number): each for topic_id, number, each in epochs["others"]
        }
        known = self._elsewhere.get(node_id)
        if (
            known is None or known.first <= epochs["first"]
        ):  # an earlier process was quicker otherwise
            self._elsewhere[node_id] = _StoreEpochs(epochs["first"], others)

    def of_own(self, ref: PartitionRef) -> int:
        """The epoch of a partition that is led in this process."""
        return self._own.others.get((ref.topic_id, ref.partition), self._own.first)

    def of_node(self, node_id: int, ref: PartitionRef) -> int:
        """The epoch of a partition that a node of another process leads, as far as it is known."""
        known = self._elsewhere.get(node_id)
        if known is None:
            return UNKNOWN_EPOCH
        return known.others.get((ref.topic_id, ref.partition), known.first)

    def forget(self, topic_id: uuid.UUID) -> None:
        """A topic is deleted."""
        for epochs in (self._own, *self._elsewhere.values()):
            for key in [key for key in epochs.others if key[0] == topic_id]:
                del epochs.others[key]
