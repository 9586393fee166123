"""The range assignor: for every topic separately, runs of partitions to the members in the order of their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from ottla.core.assignors.java_order import text_order
from ottla.core.assignors.model import (
    Assignment,
    Assignor,
    Cluster,
    PartitionInfo,
    Subscription,
    assignments,
    members_by_name,
    members_in_order,
    topics_to_assign,
)
from ottla.core.assignors.racks import member_racks, racks_matter
from ottla.model import TopicPartition

Shares = dict[str, list[TopicPartition]]


class RangeAssignor(Assignor):
    """Equal partition numbers of topics with the same members and sizes go to the same member."""

    name = "range"

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        return assign_ranges(cluster, subscriptions)


def assign_ranges(
    cluster: Cluster, subscriptions: Mapping[str, Subscription]
) -> dict[str, Assignment]:
    """Kafka's range assignment, near replicas first where racks matter (KIP-881)."""
    topics = topics_to_assign(cluster, subscriptions)
    members: dict[str, list[str]] = {topic: [] for topic in topics}
    for member in members_by_name(subscriptions):
        for topic in dict.fromkeys(subscriptions[member].topics):
            if topic in members:
                members[topic].append(member)
    racks = member_racks(subscriptions)
    states = [_Topic(topic, topics[topic], members[topic], racks) for topic in topics]
    shares: Shares = {member: [] for member in members_in_order(subscriptions)}
    by_racks = any(state.racks_matter for state in states)
    if by_racks:
        _assign_near(states, shares)
    for state in states:
        _assign_runs(state, _any_member, shares)
    if by_racks:
        for share in shares.values():
            share.sort(key=lambda partition: (text_order(partition.topic), partition.partition))
    return assignments(shares)


class _Topic:
    """A topic during its assignment."""

    def __init__(
        self,
        topic: str,
        partitions: Sequence[PartitionInfo],
        members: Sequence[str],
        racks: Mapping[str, str],
    ) -> None:
        self.topic = topic
        self.members = members
        self.numbers = [info.partition for info in partitions]
        self.unassigned = dict.fromkeys(self.numbers)
        self._racks = {member: racks[member] for member in members if member in racks}
        self._replicas = {info.partition: info.racks for info in partitions}
        self.racks_matter = racks_matter(self._racks.values(), self._replicas.values())
        self._each, self._extra = divmod(len(partitions), len(members))
        self._assigned = dict.fromkeys(members, 0)

    def near(self, member: str, partition: int) -> bool:
        """Whether a member is in a rack of the partition; one without a rack always is."""
        rack = self._racks.get(member)
        return rack is None or rack in self._replicas.get(partition, ())

    def room(self, member: str) -> int:
        """The number of partitions that the member may still get."""
        return max(0, self._each + (self._extra > 0) - self._assigned[member])

    def give(self, member: str, partitions: Sequence[int], shares: Shares) -> None:
        shares[member].extend(TopicPartition(self.topic, number) for number in partitions)
        self._assigned[member] += len(partitions)
        if self._assigned[member] > self._each:
            self._extra -= 1
        for number in partitions:
            del self.unassigned[number]


def _any_member(member: str, partition: int) -> bool:
    del member, partition
    return True


def _assign_runs(state: _Topic, may_own: Callable[[str, int], bool], shares: Shares) -> None:
    """Assigns to every member, in order, the first partitions that it may own."""
    for member in state.members:
        free = (number for number in state.unassigned if may_own(member, number))
        run = list(islice(free, state.room(member)))
        if run:
            state.give(member, run, shares)


def _assign_near(states: Sequence[_Topic], shares: Shares) -> None:
    """Assigns partitions to members in the rack of a replica, as far as the balance allows it."""
    alike: dict[tuple[tuple[str, ...], tuple[int, ...]], list[_Topic]] = {}
    for state in states:
        alike.setdefault((tuple(state.members), tuple(state.numbers)), []).append(state)
    for group in alike.values():
        if len(group) > 1:
            _assign_together(group, shares)
        elif group[0].racks_matter:
            _assign_runs(group[0], group[0].near, shares)


def _assign_together(states: Sequence[_Topic], shares: Shares) -> None:
    """Assigns equal partition numbers of topics with the same members and sizes to one member near all of them."""
    remaining = dict.fromkeys(states[0].members)
    for number in states[0].numbers:
        for member in remaining:
            if all(state.near(member, number) and state.room(member) > 0 for state in states):
                break
        else:
            continue
        for state in states:
            state.give(member, [number], shares)
        if not any(state.room(member) for state in states):
            del remaining[member]
