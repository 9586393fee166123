"""Groups that change at random from one rebalance to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from ottla.core.assignors.model import Assignment, PartitionInfo, Subscription
from ottla.core.assignors.protocol import decode_subscription, encode_subscription
from ottla.core.assignors.user_data import encode_claim, encode_generation
from ottla.model import TopicPartition

# The last two are in one order by units and in the other by code points.
CLIENT_IDS = ("consumer", "C", "ø", "\uff21", "\U0001d538")
RACKS = ("rack-a", "rack-b", "rack-c")


@dataclass
class Member:
    """A member, and what it had when it last heard from the leader."""

    topics: tuple[str, ...]
    instance: str | None
    rack: str | None
    version: int
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    stale: bool = False


@dataclass
class RandomGroup:
    """A group whose members join, leave, fall behind and change their minds."""

    random: Random
    assignor: str
    members: dict[str, Member] = field(default_factory=dict)
    cluster: dict[str, list[PartitionInfo]] = field(default_factory=dict)
    generation_id: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        chance = self.random.random
        self.alike = chance() < 0.5
        self.with_racks = chance() < 0.4
        self.messy = chance() < 0.3
        self.old_clients = chance() < 0.3
        self.big = chance() < 0.1
        for _ in range(self.random.randint(1, 12 if self.big else 5)):
            self._add_topic()
        for _ in range(self.random.randint(1, 40 if self.big else 8)):
            self._join()

    def change(self) -> None:
        """One or a few things happen."""
        happenings = [self._join, self._join, self._leave, self._leave, self._grow]
        happenings += [self._add_topic, self._delete_topic, self._resubscribe, self._resubscribe]
        if self.messy:
            happenings += [self._fall_behind, self._steal, self._forget]
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            self.random.choice(happenings)()

    def subscriptions(self) -> dict[str, Subscription]:
        """What the leader is told, in an order of no meaning."""
        ids = list(self.members)
        self.random.shuffle(ids)
        return {member_id: self._subscription(self.members[member_id]) for member_id in ids}

    def apply(self, shares: Mapping[str, Assignment]) -> None:
        """The members that listen get their shares."""
        self.generation_id += 1
        for member_id, member in self.members.items():
            if member.stale:
                member.stale = self.random.random() < 0.5
            else:
                member.owned = shares[member_id].partitions
                member.generation_id = self.generation_id

    def _subscription(self, member: Member) -> Subscription:
        full = Subscription(
            topics=member.topics, generation_id=member.generation_id, rack_id=member.rack
        )
        if self.assignor == "sticky" and member.generation_id >= 0:
            full = replace(full, user_data=encode_claim(member.owned, member.generation_id))
        elif self.assignor == "cooperative-sticky":
            user_data = encode_generation(member.generation_id)
            full = replace(full, user_data=user_data, owned_partitions=member.owned)
        # An old client cannot say all of it.
        return decode_subscription(encode_subscription(full, member.version), member.instance)

    def _some_topics(self) -> tuple[str, ...]:
        names = sorted(self.cluster)
        if self.alike:
            return tuple(names)
        missing = ["missing"] if self.random.random() < 0.05 else []
        return tuple(self.random.sample(names, self.random.randint(1, len(names))) + missing)

    def _join(self) -> None:
        self.made += 1
        random = self.random
        # Ids as clients get them: they begin alike, or do not.
        suffix = f"{random.getrandbits(64):016x}"
        name = f"{random.choice(CLIENT_IDS)}-{self.made}-{suffix}"
        self.members[name] = Member(
            topics=self._some_topics(),
            instance=f"instance-{random.randint(0, 99)}" if random.random() < 0.2 else None,
            rack=random.choice([*RACKS, "rack-z", "", None]) if self.with_racks else None,
            version=random.randint(0, 3) if self.old_clients else 3,
        )

    def _leave(self) -> None:
        if len(self.members) > 1:
            del self.members[self.random.choice(list(self.members))]

    def _new_partition(self, number: int) -> PartitionInfo:
        if not self.with_racks:
            return PartitionInfo(number)
        return PartitionInfo(number, tuple(self.random.choices(RACKS, k=self.random.randint(0, 3))))

    def _add_topic(self) -> None:
        self.made += 1
        count = self.random.randint(1, 40 if self.big else 9)
        name = f"{self.random.choice(['t', 'orders.', 'Zz_'])}{self.made}"
        self.cluster[name] = [self._new_partition(number) for number in range(count)]
        if self.alike:
            self._all_want_all()

    def _delete_topic(self) -> None:
        if len(self.cluster) > 1:
            del self.cluster[self.random.choice(list(self.cluster))]
            if self.alike:
                self._all_want_all()

    def _grow(self) -> None:
        infos = self.cluster[self.random.choice(list(self.cluster))]
        infos.append(self._new_partition(len(infos)))

    def _all_want_all(self) -> None:
        for member in self.members.values():
            member.topics = tuple(self.cluster)

    def _resubscribe(self) -> None:
        member = self.random.choice(list(self.members.values()))
        # Kafka gives partitions back to members that were away and no longer want them, which here is
        # otherwise: a member that changes its mind is not away.
        if not member.stale and member.generation_id in (-1, self.generation_id):
            member.topics = self._some_topics()

    def _fall_behind(self) -> None:
        member = self.random.choice(list(self.members.values()))
        member.stale = all(partition.topic in member.topics for partition in member.owned)

    def _steal(self) -> None:
        thief, owner = self.random.choices(list(self.members.values()), k=2)
        wanted = [partition for partition in owner.owned if partition.topic in thief.topics]
        thief.owned += tuple(wanted[: self.random.randint(1, 3)])

    def _forget(self) -> None:
        member = self.random.choice(list(self.members.values()))
        member.owned, member.generation_id = (), -1
