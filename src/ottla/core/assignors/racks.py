"""The racks of members and replicas, and whether they matter for an assignment (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.core.assignors.model import PartitionInfo, Subscription
from ottla.model import TopicPartition


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """The racks of the members that have one."""
    return {
        member: subscription.rack_id
        for member, subscription in subscriptions.items()
        if subscription.rack_id
    }


def racks_matter(of_members: Iterable[str], of_partitions: Iterable[tuple[str, ...]]) -> bool:
    """Whether some member is nearer to some partitions than to others."""
    replicas = [frozenset(racks) for racks in of_partitions]
    everywhere = frozenset[str]().union(*replicas)
    return not everywhere.isdisjoint(of_members) and any(racks != everywhere for racks in replicas)


class Racks:
    """Which members are near which partitions; none if racks do not matter."""

    def __init__(
        self,
        cluster: Mapping[str, Iterable[PartitionInfo]],
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        of_members = member_racks(subscriptions)
        of_partitions = {
            TopicPartition(topic, partition): racks
            for topic, partitions in cluster.items()
            for partition, racks in partitions
        }
        self.matter = racks_matter(of_members.values(), of_partitions.values())
        self._of_members = of_members if self.matter else {}
        self._of_partitions = of_partitions if self.matter else {}
        self._members_in: dict[str, int] = {}
        for rack in self._of_members.values():
            self._members_in[rack] = self._members_in.get(rack, 0) + 1

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack in which the partition has no replica."""
        rack = self._of_members.get(member)
        return rack is not None and rack not in self._of_partitions.get(partition, ())

    def near(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack in which the partition has a replica."""
        rack = self._of_members.get(member)
        return rack is not None and rack in self._of_partitions.get(partition, ())

    def members_near(self, partition: TopicPartition) -> int:
        """The number of members in the racks of a partition."""
        racks = dict.fromkeys(self._of_partitions.get(partition, ()))
        return sum(self._members_in.get(rack, 0) for rack in racks)
