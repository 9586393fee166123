"""Groups of the new protocol that change at random from one target assignment to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from ottla.core.assignors.server_side.model import Partitions, Subscriber


@dataclass
class RandomServerGroup:
    """A group whose members join, leave, are replaced and change their minds, and its topics."""

    random: Random
    members: dict[str, Subscriber] = field(default_factory=dict)
    partition_counts: dict[UUID, int] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        chance = self.random.random
        self.alike = chance() < 0.5
        self.with_patterns = chance() < 0.2
        self.big = chance() < 0.1
        for _ in range(self.random.randint(1, 30 if self.big else 5)):
            self._add_topic()
        for _ in range(self.random.randint(0, 40 if self.big else 8)):
            self._join()

    def change(self) -> None:
        """One or a few things happen."""
        happenings = [self._join, self._join, self._leave, self._leave, self._grow, self._replace]
        happenings += [self._add_topic, self._delete_topic, self._resubscribe, self._resubscribe]
        for _ in range(self.random.choice([0, 1, 1, 2, 3, 12])):
            self.random.choice(happenings)()

    def apply(self, targets: Mapping[str, Partitions]) -> None:
        """The targets become those that the members have."""
        for member_id, owned in targets.items():
            self.members[member_id] = self.members[member_id]._replace(owned=owned)

    def _some_topics(self) -> frozenset[UUID]:
        topic_ids = sorted(self.partition_counts)
        if self.alike:
            return frozenset(topic_ids)
        return frozenset(self.random.sample(topic_ids, self.random.randint(0, len(topic_ids))))

    def _join(self) -> None:
        self.made += 1
        random = self.random
        # Clients of the new protocol make their ids of random bits.
        prefix = random.choice(["", "", "", "ø-", "\uff21", "\U0001d538"])
        self.members[f"{prefix}{random.getrandbits(128):032x}"] = Subscriber(
            topic_ids=self._some_topics(),
            owned={},
            instance_id=f"instance-{self.made}" if random.random() < 0.3 else None,
            by_pattern=self.with_patterns and random.random() < 0.5,
        )

    def _leave(self) -> None:
        if self.members:
            del self.members[self.random.choice(list(self.members))]

    def _replace(self) -> None:
        """A static member comes back with another member id."""
        static = [each for each, member in self.members.items() if member.instance_id is not None]
        if static:
            member = self.members.pop(self.random.choice(static))
            self.members[f"{self.random.getrandbits(128):032x}"] = member

    def _add_topic(self) -> None:
        count = self.random.randint(1, 70 if self.big else 9)
        self.partition_counts[UUID(int=self.random.getrandbits(128))] = count
        if self.alike:
            self._all_want_all()

    def _delete_topic(self) -> None:
        if len(self.partition_counts) > 1:
            topic_id = self.random.choice(sorted(self.partition_counts))
            del self.partition_counts[topic_id]
            # Members own its partitions until the next target assignment.
            for member_id, member in self.members.items():
                self.members[member_id] = member._replace(topic_ids=member.topic_ids - {topic_id})

    def _grow(self) -> None:
        topic_id = self.random.choice(sorted(self.partition_counts))
        self.partition_counts[topic_id] += self.random.randint(1, 5)

    def _all_want_all(self) -> None:
        topic_ids = frozenset(self.partition_counts)
        for member_id, member in self.members.items():
            self.members[member_id] = member._replace(topic_ids=topic_ids)

    def _resubscribe(self) -> None:
        if self.members:
            member_id = self.random.choice(list(self.members))
            topic_ids = self._some_topics()
            self.members[member_id] = self.members[member_id]._replace(topic_ids=topic_ids)
