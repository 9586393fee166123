"""Sticky assignment where all members subscribe to the same topics."""

from __future__ import annotations

from collections import deque

from ottla.core.assignors.claims import Owned, Topics
from ottla.core.assignors.java_order import text_order
from ottla.core.assignors.racks import Racks
from ottla.model import TopicPartition


class ConstrainedAssignment:
    """Every member gets the lower or the upper quota, which differ by one at most."""

    def __init__(self, topics: Topics, racks: Racks, owned: Owned) -> None:
        self._racks = racks
        self._owned = owned
        names = sorted(topics, key=text_order)
        self._topic_rank = {topic: rank for rank, topic in enumerate(names)}
        self._all = [
            TopicPartition(topic, info.partition) for topic in names for info in topics[topic]
        ]
        self.shares: dict[str, list[TopicPartition]] = {member: [] for member in owned.partitions}
        self.transferred: dict[TopicPartition, str] = {}
        """Assigned to a member although another one still has it."""
        self._given_up: dict[TopicPartition, str] = {}
        self._lower, self._uppers_expected = divmod(len(self._all), len(self.shares))
        self._upper = self._lower + (self._uppers_expected > 0)
        self._uppers = 0
        self._below: list[str] = []
        """The members with fewer partitions than the lower quota."""
        self._at_lower: deque[str] = deque()
        """The members with the lower quota that may get one more partition."""

    def run(self) -> None:
        for member in self._owned.partitions:
            self._keep_owned(member)
        assigned = {partition: None for share in self.shares.values() for partition in share}
        unassigned = [partition for partition in self._all if partition not in assigned]
        self._below.sort(key=text_order)
        self._at_lower = deque(sorted(self._at_lower, key=text_order))
        if self._racks.matter:
            # Partitions near few members come first: the others are easier to place.
            unassigned.sort(key=self._racks.members_near)
            unassigned = self._fill_near(unassigned)
        self._fill(unassigned)

    def _keep_owned(self, member: str) -> None:
        """Leaves a member the partitions that it owns, up to its quota."""
        near = []
        for partition in self._owned.partitions[member]:
            if self._racks.mismatch(member, partition):
                self._given_up[partition] = member
            elif partition not in self._owned.contested:
                near.append(partition)
        near.sort(key=lambda partition: (partition.partition, self._topic_rank[partition.topic]))
        quota = self._lower
        if len(near) < self._lower:
            self._below.append(member)
        elif len(near) >= self._upper and self._uppers < self._uppers_expected:
            quota = self._upper
            self._count_upper()
        elif self._uppers < self._uppers_expected:
            self._at_lower.append(member)
        self.shares[member].extend(near[:quota])
        for partition in near[quota:]:
            self._given_up[partition] = member

    def _count_upper(self) -> None:
        self._uppers += 1
        if self._uppers == self._uppers_expected:
            self._at_lower.clear()

    def _fill_near(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Assigns partitions to members in the rack of a replica; returns those for which there is none."""
        left = []
        turn = 0
        for partition in unassigned:
            index = self._next_near(partition, turn)
            if index is not None:
                member = self._below[index]
                turn = self._fill_below(index)
            elif (found := self._first_near_at_lower(partition)) is not None:
                member = found
                self._at_lower.remove(member)
                self._count_upper()
            else:
                left.append(partition)
                continue
            self._assign(partition, member)
        return left

    def _next_near(self, partition: TopicPartition, turn: int) -> int | None:
        for step in range(len(self._below)):
            index = (turn + step) % len(self._below)
            if self._racks.near(self._below[index], partition):
                return index
        return None

    def _first_near_at_lower(self, partition: TopicPartition) -> str | None:
        for member in self._at_lower:
            if self._racks.near(member, partition):
                return member
        return None

    def _fill_below(self, index: int) -> int:
        """Counts one more partition for a member below the lower quota; returns the index of the next member."""
        member = self._below[index]
        if len(self.shares[member]) + 1 >= self._lower:
            del self._below[index]
            # If all upper quotas are taken, or there are none, the member has enough.
            if self._uppers < self._uppers_expected:
                self._at_lower.append(member)
        else:
            index += 1
        return index % len(self._below) if self._below else 0

    def _fill(self, unassigned: list[TopicPartition]) -> None:
        """Assigns the rest: in rounds up to the lower quota, then one more each."""
        turn = 0
        for partition in unassigned:
            if self._below:
                turn %= len(self._below)
                member = self._below[turn]
                if self._assign(partition, member) == self._lower:
                    del self._below[turn]
                    self._at_lower.append(member)
                else:
                    turn += 1
            else:
                self._assign(partition, self._at_lower.popleft())

    def _assign(self, partition: TopicPartition, member: str) -> int:
        share = self.shares[member]
        share.append(partition)
        if self._given_up.get(partition, member) != member or partition in self._owned.contested:
            self.transferred[partition] = member
        return len(share)
