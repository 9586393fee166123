"""What an assignor of the group coordinator is given and what it answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla.core.assignors.java_order import hash_map_order, sorted_texts

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic; a topic without any is not in it."""


class Subscriber(NamedTuple):
    """A member as an assignor sees it.

    Members with the same subscription should have the same frozenset: assignors need not compare its topics then.
    """

    # The topics that exist of those that it names and of those that its pattern matches.
    topic_ids: frozenset[UUID]
    # Its target assignment so far. No partition is owned by two members.
    owned: Partitions
    instance_id: str | None = None
    # Kafka never counts a group with a pattern as one whose members all subscribe to the same topics.
    by_pattern: bool = False


class ServerAssignor(Protocol):
    """Computes the target assignment of a group."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def assign(
        self, members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
    ) -> dict[str, Partitions]:
        """The target of every member; the very object that was `owned` if it stays as it was.

        `partition_counts` has at least the topics of the subscriptions.
        """


def in_hash_map_order(members: Mapping[str, Subscriber]) -> list[str]:
    """The member ids as Kafka's coordinator walks them; it does not matter in which order they are in the mapping."""
    return hash_map_order(sorted_texts(members))


def is_homogeneous(members: Mapping[str, Subscriber]) -> bool:
    """Whether all members subscribe to the same topics, all by their names."""
    subscribers = iter(members.values())
    first = next(subscribers)
    topic_ids = first.topic_ids
    return not first.by_pattern and all(
        not each.by_pattern and (each.topic_ids is topic_ids or each.topic_ids == topic_ids)
        for each in subscribers
    )
