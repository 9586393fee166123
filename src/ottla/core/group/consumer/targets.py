"""The target assignment of a group: an assignor decides it from subscriptions and the last target."""

from __future__ import annotations

from uuid import UUID

from ottla.core.assignors.server_side.model import Partitions, Subscriber
from ottla.core.assignors.server_side.registry import SERVER_ASSIGNORS
from ottla.core.group.consumer.events import MemberSubscription
from ottla.core.group.consumer.group import ConsumerGroup, TopicsView


def compute_targets(group: ConsumerGroup, assignor: str, view: TopicsView) -> dict[str, Partitions]:
    """The new targets of all members; the same object where a target does not change."""
    topic_ids = _TopicIds(group, view)
    taken: dict[UUID, set[int]] = {}
    subscribers = {
        member_id: Subscriber(
            topic_ids.of(member.subscription),
            _without_taken(group.target(member_id), taken),
            member.subscription.instance_id,
            bool(member.subscription.pattern),
        )
        for member_id, member in group.members.items()
    }
    return SERVER_ASSIGNORS[assignor].assign(subscribers, topic_ids.partition_counts)


def _without_taken(owned: Partitions, taken: dict[UUID, set[int]]) -> Partitions:
    """The partitions that no earlier member has: a crash may have cut off half of the last targets."""
    overlaps = False
    for topic_id, partitions in owned.items():
        before = taken.get(topic_id)
        if before is None:
            taken[topic_id] = set(partitions)
        else:
            overlaps = overlaps or not partitions.isdisjoint(before)
            # In place: a copy for every member would take the square of their number.
            before |= partitions
    return {} if overlaps else owned


class _TopicIds:
    """The ids of subscribed topics; members with the same subscription get the same object."""

    def __init__(self, group: ConsumerGroup, view: TopicsView) -> None:
        self._group = group
        self._view = view
        self._found: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
        self.partition_counts: dict[UUID, int] = {}

    def of(self, subscription: MemberSubscription) -> frozenset[UUID]:
        key = (subscription.topics, subscription.pattern)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._group.topic_ids_of(subscription, self._view)
            for topic_id in sorted(found):
                self.partition_counts[topic_id] = self._view.topics_by_id[topic_id].partition_count
        return found
