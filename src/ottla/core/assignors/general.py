"""Sticky assignment where members want different topics."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping

from ottla.core.assignors.claims import Owned, Topics
from ottla.core.assignors.java_order import text_order
from ottla.core.assignors.model import Subscription
from ottla.core.assignors.movements import Movements
from ottla.core.assignors.racks import Racks
from ottla.model import TopicPartition

MAX_PASSES = 1000
"""Kafka repeats until no partition moves. A few passes are usual, but moves can undo each other, hence a limit."""

Shares = dict[str, dict[TopicPartition, None]]


class GeneralAssignment:
    """Keeps owners, assigns the rest to the members with the fewest partitions, then moves partitions to balance."""

    def __init__(
        self,
        topics: Topics,
        subscriptions: Mapping[str, Subscription],
        racks: Racks,
        owned: Owned,
    ) -> None:
        self._racks = racks
        self._previous = owned.previous
        self.shares: Shares = {member: dict(mine) for member, mine in owned.partitions.items()}
        self._wanted: dict[str, dict[str, None]] = {}
        self._members: dict[str, list[str]] = {topic: [] for topic in topics}
        for member in self.shares:
            wanted = [topic for topic in subscriptions[member].topics if topic in topics]
            self._wanted[member] = dict.fromkeys(wanted)
            for topic in self._wanted[member]:
                self._members[topic].append(member)
        # The topics that the fewest members want come first: these have the least choice.
        order = sorted(topics, key=lambda topic: (len(self._members[topic]), text_order(topic)))
        self._partitions = {
            topic: [TopicPartition(topic, info.partition) for info in topics[topic]]
            for topic in order
        }
        self._all = [partition for topic in order for partition in self._partitions[topic]]
        self._owner: dict[TopicPartition, str] = {}
        self._revoked = False
        self._movements = Movements()
        self._revoke_unwanted()
        self._ladder = _Ladder(self.shares)
        self._crowded: str | None = None
        """The topic that `_is_balanced` last found unbalanced: it looks there first."""

    def run(self) -> None:
        starting = not any(self.shares.values())
        unassigned = [partition for partition in self._all if partition not in self._owner]
        left = unassigned
        if self._racks.matter:
            left = self._assign(unassigned, lambda member, tp: not self._racks.mismatch(member, tp))
        self._assign(left, lambda member, tp: True)
        fixed = self._take_fixed_members()
        movable = [tp for tp in self._all if len(self._members[tp.topic]) > 1]
        before = {member: dict(share) for member, share in self.shares.items()}
        if not self._revoked:
            self._balance([tp for tp in unassigned if len(self._members[tp.topic]) > 1])
        moved = self._balance(movable)
        if moved and not starting and _imbalance(self.shares) >= _imbalance(before):
            self.shares = before
        self.shares |= fixed

    def _revoke_unwanted(self) -> None:
        """Revokes partitions whose topic the owner no longer wants, or that have no replica in the owner's rack."""
        for member, share in self.shares.items():
            for partition in list(share):
                wanted = partition.topic in self._wanted[member]
                if wanted and not self._racks.mismatch(member, partition):
                    self._owner[partition] = member
                else:
                    del share[partition]
                    self._revoked = True

    def _assign(
        self,
        partitions: Iterable[TopicPartition],
        may_own: Callable[[str, TopicPartition], bool],
    ) -> list[TopicPartition]:
        """Assigns each partition to the member with the fewest that may own it; returns those without a member."""
        left = []
        for partition in partitions:
            for member in self._ladder:
                if partition.topic in self._wanted[member] and may_own(member, partition):
                    self.shares[member][partition] = None
                    self._owner[partition] = member
                    self._ladder.put(member, len(self.shares[member]))
                    break
            else:
                left.append(partition)
        return left

    def _take_fixed_members(self) -> Shares:
        """Takes the members out whose share cannot change; returns their shares."""
        fixed: Shares = {}
        for member in list(self.shares):
            share = self.shares[member]
            most = sum(len(self._partitions[topic]) for topic in self._wanted[member])
            if len(share) >= most and not any(len(self._members[tp.topic]) > 1 for tp in share):
                fixed[member] = self.shares.pop(member)
                self._ladder.remove(member)
        return fixed

    def _balance(self, movable: list[TopicPartition]) -> bool:
        """Moves partitions from members with more to members with fewer; returns whether one moved."""
        moved_ever = False
        for _ in range(MAX_PASSES):
            moved = False
            balanced = self._is_balanced()
            for partition in movable:
                if balanced:
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._move(partition, target)
                    moved = moved_ever = True
                    balanced = self._is_balanced()
            if not moved:
                break
        return moved_ever

    def _better_owner(self, partition: TopicPartition) -> str | None:
        limit = len(self.shares[self._owner[partition]]) - 1
        previous = self._previous.get(partition)
        if previous is not None and len(self.shares[previous]) < limit:
            return previous
        # Kafka looks first for a member in a rack of the partition, and then chooses this member whatever it found.
        for member in self._ladder:
            if partition.topic in self._wanted[member]:
                return member if len(self.shares[member]) < limit else None
        return None

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self._movements.instead_of(partition, self._owner[partition], target)
        source = self._owner[partition]
        self._movements.add(partition, source, target)
        del self.shares[source][partition]
        self.shares[target][partition] = None
        self._owner[partition] = target
        self._ladder.put(source, len(self.shares[source]))
        self._ladder.put(target, len(self.shares[target]))

    def _is_balanced(self) -> bool:
        """Whether no member could take a partition from a member that has at least two more."""
        if self._ladder.spread() <= 1:
            return True
        if self._crowded is not None and self._is_crowded(self._crowded):
            return False
        for topic, members in self._members.items():
            if len(members) > 1 and self._is_crowded(topic):
                self._crowded = topic
                return False
        return True

    def _is_crowded(self, topic: str) -> bool:
        """Whether a subscriber of the topic has at least two partitions fewer than an owner in the topic."""
        least = min(len(self.shares[member]) for member in self._members[topic])
        owners = (self._owner[partition] for partition in self._partitions[topic])
        return any(len(self.shares[owner]) > least + 1 for owner in owners)


def _imbalance(shares: Shares) -> int:
    """The sum of the differences between the sizes of all pairs of shares."""
    sizes = sorted(len(share) for share in shares.values())
    return sum((2 * place - len(sizes) + 1) * size for place, size in enumerate(sizes))


class _Ladder:
    """Members in the order of the sizes of their shares, smallest first, then by name."""

    def __init__(self, shares: Shares) -> None:
        self._names = sorted(shares, key=text_order)
        self._ranks = {member: rank for rank, member in enumerate(self._names)}
        self._sizes = {member: len(share) for member, share in shares.items()}
        self._rungs = sorted((size, self._ranks[member]) for member, size in self._sizes.items())

    def __iter__(self) -> Iterator[str]:
        return (self._names[rank] for _, rank in self._rungs)

    def spread(self) -> int:
        """The difference between the largest and the smallest share."""
        return self._rungs[-1][0] - self._rungs[0][0] if self._rungs else 0

    def remove(self, member: str) -> None:
        rung = self._sizes.pop(member), self._ranks[member]
        del self._rungs[bisect_left(self._rungs, rung)]

    def put(self, member: str, size: int) -> None:
        """Sets the size of a member's share."""
        self.remove(member)
        self._sizes[member] = size
        insort(self._rungs, (size, self._ranks[member]))
