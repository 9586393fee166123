"""Kafka's `range` of the group coordinator: to each member consecutive partitions of each topic."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from ottla.core.assignors.java_order import text_order
from ottla.core.assignors.server_side.model import Partitions, Subscriber
from ottla.core.assignors.server_side.subscriptions import audiences


class ServerRangeAssignor:
    """Members in the order of their instance ids, then the others in that of their member ids, share each topic.

    Topics with as many partitions and the same subscribers are co-partitioned: a member has the same numbers of each.
    """

    name = "range"

    def assign(
        self, members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
    ) -> dict[str, Partitions]:
        member_ids = _static_members_first(members)
        shares: list[dict[UUID, frozenset[int]]] = [{} for _ in member_ids]
        for audience in audiences(member_ids, members):
            for topic_id in audience.topic_ids:
                ranges = _ranges(partition_counts[topic_id], len(audience.subscribers))
                for position, partitions in zip(audience.subscribers, ranges, strict=False):
                    shares[position][topic_id] = partitions
        targets: dict[str, Partitions] = {}
        for member_id, share in zip(member_ids, shares, strict=True):
            owned = members[member_id].owned
            targets[member_id] = owned if share == owned else share
        return targets


def _static_members_first(members: Mapping[str, Subscriber]) -> list[str]:
    def order(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, text_order(member_id if instance_id is None else instance_id)

    return sorted(members, key=order)


def _ranges(partition_count: int, subscriber_count: int) -> list[frozenset[int]]:
    """Consecutive numbers, those of the first members longer by one; there is no empty one."""
    size, longer = divmod(partition_count, subscriber_count)
    ranges: list[frozenset[int]] = []
    start = 0
    for number in range(min(partition_count, subscriber_count)):
        end = start + size + (number < longer)
        ranges.append(frozenset(range(start, end)))
        start = end
    return ranges
