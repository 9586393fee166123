"""The uniform assignment of a group whose members subscribe to different topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from ottla.core.assignors.java_order import uuid_order
from ottla.core.assignors.server_side.model import Partitions, Subscriber, in_hash_map_order
from ottla.core.assignors.server_side.subscriptions import audiences

# Where subscriptions overlap, a move for one topic may allow another for the next, without end; Kafka's limit.
MAX_ROUNDS = 16

_NO_OWNER = -1


@dataclass(slots=True)
class _Load:
    """Topics with the same subscribers have one of these in common: the fewest partitions that one of them has."""

    subscribers: list[int]
    fewest: int = 0
    # The number of moves in the group when it was computed.
    computed_at: int = -1


@dataclass(slots=True)
class _Topic:
    topic_id: UUID
    # By partition; members are positions in the list of members.
    owners: list[int]
    load: _Load


def assign_heterogeneous(
    members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Every member keeps its partitions and those with the fewest get the rest; then moves even out what they have."""
    assignment = _Assignment(members, partition_counts)
    assignment.assign_free()
    assignment.balance()
    return assignment.targets()


class _Assignment:
    """The assignment while it is computed."""

    def __init__(
        self, members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
    ) -> None:
        self._members = members
        self._member_ids = in_hash_map_order(members)
        self._topics = _topics(self._member_ids, members, partition_counts)
        # The number of partitions of each member.
        self._sizes = [0] * len(self._member_ids)
        # Members that get another assignment than they have.
        self._changed: dict[int, dict[UUID, set[int]]] = {}
        self._moves = 0
        by_id = {topic.topic_id: topic for topic in self._topics}
        for position, member_id in enumerate(self._member_ids):
            self._keep(position, members[member_id], by_id)

    def _keep(self, position: int, member: Subscriber, topics: Mapping[UUID, _Topic]) -> None:
        for topic_id, partitions in member.owned.items():
            if topic_id not in member.topic_ids:
                del self._to_change(position)[topic_id]
                continue
            owners = topics[topic_id].owners
            for number in partitions:
                owners[number] = position
            self._sizes[position] += len(partitions)

    def assign_free(self) -> None:
        for topic in self._topics:
            if _NO_OWNER not in topic.owners:
                continue
            lightest = _lightest(self._by_size(topic.load), self._sizes)
            for number, owner in enumerate(topic.owners):
                if owner == _NO_OWNER:
                    _, taker = next(lightest)
                    self._give(topic, number, taker)

    def balance(self) -> None:
        topics = [topic for topic in self._topics if len(topic.load.subscribers) > 1]
        # It ends after as many topics without a move as there are.
        still_balanced = 0
        for _ in range(MAX_ROUNDS):
            for topic in topics:
                if still_balanced == len(topics):
                    return
                still_balanced = 1 if self._balance_topic(topic) else still_balanced + 1

    def _balance_topic(self, topic: _Topic) -> bool:
        """Whether a partition of the topic moved to a member that has fewer."""
        sizes, load = self._sizes, topic.load
        if load.computed_at != self._moves:
            load.fewest = min(map(sizes.__getitem__, load.subscribers))
            load.computed_at = self._moves
        if max(map(sizes.__getitem__, topic.owners)) - load.fewest <= 1:
            return False
        piles: dict[int, list[int]] = {}
        for number, owner in enumerate(topic.owners):
            piles.setdefault(owner, []).append(number)
        moves_before = self._moves
        line = self._by_size(load)
        both_ends = zip(_heaviest(line, sizes, piles), _lightest(line, sizes), strict=False)
        for (most, giver), (fewest, taker) in both_ends:
            if most - fewest <= 1:
                break
            number = piles[giver].pop()
            self._take(topic, number, giver)
            self._give(topic, number, taker)
            self._moves += 1
        return self._moves != moves_before

    def _by_size(self, load: _Load) -> list[int]:
        return sorted(load.subscribers, key=self._sizes.__getitem__)

    def _to_change(self, position: int) -> dict[UUID, set[int]]:
        changed = self._changed.get(position)
        if changed is None:
            owned = self._members[self._member_ids[position]].owned
            changed = {topic_id: set(partitions) for topic_id, partitions in owned.items()}
            self._changed[position] = changed
        return changed

    def _give(self, topic: _Topic, number: int, taker: int) -> None:
        self._to_change(taker).setdefault(topic.topic_id, set()).add(number)
        topic.owners[number] = taker
        self._sizes[taker] += 1

    def _take(self, topic: _Topic, number: int, giver: int) -> None:
        self._to_change(giver)[topic.topic_id].remove(number)
        self._sizes[giver] -= 1

    def targets(self) -> dict[str, Partitions]:
        targets: dict[str, Partitions] = {}
        for position, member_id in enumerate(self._member_ids):
            owned = targets[member_id] = self._members[member_id].owned
            changed = self._changed.get(position)
            if changed is not None:
                share = {
                    topic_id: frozenset(partitions)
                    for topic_id, partitions in changed.items()
                    if partitions
                }
                if share != owned:
                    targets[member_id] = share
        return targets


def _topics(
    member_ids: list[str],
    members: Mapping[str, Subscriber],
    partition_counts: Mapping[UUID, int],
) -> list[_Topic]:
    """Those with the most partitions for each subscriber first."""
    topics: list[_Topic] = []
    for audience in audiences(member_ids, members):
        load = _Load(audience.subscribers)
        topics += [
            _Topic(topic_id, [_NO_OWNER] * partition_counts[topic_id], load)
            for topic_id in audience.topic_ids
        ]

    def order(topic: _Topic) -> tuple[float, int, int]:
        subscriber_count = len(topic.load.subscribers)
        per_subscriber = len(topic.owners) / subscriber_count
        return -per_subscriber, subscriber_count, uuid_order(topic.topic_id)

    return sorted(topics, key=order)


def _lightest(line: list[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Whom to give the next partition to, again and again, and how many it had at the beginning of its turn.

    The line begins with the members that have the fewest. Each of these gets one, then each of these and of those that
    had one more, and so on.
    """
    end = 0
    size = sizes[line[0]]
    while True:
        while end < len(line) and sizes[line[end]] == size:
            end += 1
        for place in range(end):
            yield size, line[place]
        size += 1


def _heaviest(
    line: list[int], sizes: list[int], piles: Mapping[int, list[int]]
) -> Iterator[tuple[int, int]]:
    """Whom to take the next partition from, from the end of the line, and how many it had at the beginning of its turn.

    A member whose pile is empty can give none: it changes places with the last of those in turn, and is passed over.
    """
    start = end = len(line)
    size = 0
    while True:
        size = sizes[line[start - 1]] if start == end else size - 1
        while start > 0 and sizes[line[start - 1]] == size:
            start -= 1
        place = end - 1
        while place >= start:
            member = line[place]
            if piles.get(member):
                yield size, member
            else:
                end -= 1
                line[place], line[end] = line[end], member
            place -= 1
        if end == 0:
            return
