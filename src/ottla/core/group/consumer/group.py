"""A group of the new protocol: its members, targets and epochs, all of it durable.

`apply` is the only way to change it, at a decision and at every replay alike. A replay may find any of a group's
records first, because compaction keeps the last record of each key: each of them makes the group and the member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla.core.assignors.server_side.model import Partitions
from ottla.core.catalog import Topic
from ottla.core.group.classic.group import CONSUMER
from ottla.core.group.consumer.events import (
    FIRST_EPOCH,
    NO_PARTITIONS,
    ConsumerGroupEvent,
    CurrentAssignment,
    CurrentDeleted,
    CurrentSaved,
    GroupEpochDeleted,
    GroupEpochSaved,
    MemberDeleted,
    MemberSaved,
    MemberState,
    MemberSubscription,
    PartitionMetadataDeleted,
    PartitionMetadataFound,
    PatternForgotten,
    PatternResolved,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochSaved,
    TargetSaved,
)
from ottla.core.group.requests import LEAVE_EPOCH, DescribedConsumerMember

NO_TARGET: Partitions = {}
DELETED_EPOCH = -1
HASH_BITS = 64


class ConsumerState(Enum):
    """The values are the words that ConsumerGroupDescribe uses."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class TopicsView(Protocol):
    """The topics of the cluster, as groups see them; the catalog is one."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    @property
    def topics_by_id(self) -> Mapping[UUID, Topic]: ...

    @property
    def topics_version(self) -> int:
        """A number that changes when a topic is created or deleted, or its partitions change."""
        ...

    @property
    def created_version(self) -> int:
        """The `topics_version` of the last topic that was created."""
        ...


class Pattern(NamedTuple):
    """A resolved pattern."""

    topics: frozenset[str]
    version: int
    resolved_at_ms: int


class ConsumerMember:
    """A member: what it said of itself, and what it has."""

    __slots__ = ("current", "member_id", "subscription")

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.subscription = MemberSubscription()
        self.current = CurrentAssignment()

    @property
    def speaks_classic(self) -> bool:
        return self.subscription.classic is not None

    @property
    def held(self) -> Partitions:
        """All partitions that it may use now, also those that it is to give up."""
        assigned, revoking = self.current.assigned, self.current.revoking
        if not revoking:
            return {topic_id: frozenset(numbers) for topic_id, numbers in assigned.items()}
        return {
            topic_id: frozenset(assigned.get(topic_id, ())) | frozenset(revoking.get(topic_id, ()))
            for topic_id in dict.fromkeys((*assigned, *revoking))
        }

    def has_reached(self, target_epoch: int) -> bool:
        """Whether it has all partitions of its target of this epoch."""
        return self.current.epoch == target_epoch and self.current.state is MemberState.STABLE


class ConsumerGroup:
    """Invariant: a partition has one owner at most, who has it assigned or has to give it up."""

    group_type = CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_computed_at_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.patterns: dict[str, Pattern] = {}
        self.has_partition_metadata = False
        # What follows from the members.
        self.static_ids: dict[str, str] = {}
        self.owners: dict[UUID, dict[int, str]] = {}
        self.topic_counts: Counter[str] = Counter()
        self.pattern_counts: Counter[str] = Counter()
        self.assignor_counts: Counter[str] = Counter()
        self.classic_count = 0
        self.protocol_counts: Counter[str] = Counter()
        # Of this run of the coordinator: the versions of the topics that the epoch and the patterns are based on.
        self.checked_version: int | None = None
        self.patterns_version: int | None = None
        self.is_resolving = False

    # States.

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(member.has_reached(self.target_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_TARGET)

    def is_owned(self, topic_id: UUID, partition: int) -> bool:
        return partition in self.owners.get(topic_id, ())

    def awaits_release(self, member: ConsumerMember) -> bool:
        """Whether other members still have partitions of the member's target."""
        if member.current.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        for topic_id, partitions in self.target(member.member_id).items():
            has = member.current.assigned.get(topic_id, {})
            owned = self.owners.get(topic_id, {})
            if any(number in owned and number not in has for number in sorted(partitions)):
                return True
        return False

    # Subscriptions.

    def subscribed_topics(self) -> dict[str, None]:
        """The names of all topics that members subscribe to; a dict for its order."""
        names = dict.fromkeys(self.topic_counts)
        for pattern in self.patterns.values():
            names |= dict.fromkeys(sorted(pattern.topics))
        return names

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topic_counts or any(
            topic in pattern.topics for pattern in self.patterns.values()
        )

    def topics_of(self, subscription: MemberSubscription) -> frozenset[str]:
        """The names of a member's topics; a pattern that is not resolved matches none."""
        pattern = self.patterns.get(subscription.pattern)
        return subscription.topics if pattern is None else subscription.topics.union(pattern.topics)

    def topic_ids_of(self, subscription: MemberSubscription, view: TopicsView) -> frozenset[UUID]:
        known = view.topics
        names = sorted(name for name in self.topics_of(subscription) if name in known)
        return frozenset(known[name].topic_id for name in names)

    def hash_topics(self, view: TopicsView) -> int:
        """A number that changes with the partitions of the subscribed topics (KIP-1101)."""
        total = 0
        for name in self.subscribed_topics():
            topic = view.topics.get(name)
            if topic is not None:
                total += _hash_topic(topic.topic_id, topic.partition_count)
        half = 1 << (HASH_BITS - 1)
        return (total + half) % (2 * half) - half  # signed

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members want; of several, the first that was asked for."""
        return max(
            self.assignor_counts, key=lambda name: self.assignor_counts[name], default=default
        )

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether a member of the classic protocol has a protocol in common with the others."""
        if protocol_type != CONSUMER:
            return False
        if self.is_empty:
            return bool(protocols)
        return any(self.protocol_counts[name] == self.classic_count for name in protocols)

    def durable_state(self) -> object:
        """What a replay has to restore."""
        members = {
            member_id: (member.subscription, member.current)
            for member_id, member in self.members.items()
        }
        epochs = (self.epoch, self.metadata_hash, self.target_epoch, self.target_computed_at_ms)
        return epochs, members, self.targets, self.patterns, self.owners, self.static_ids

    # Changes.

    def apply(self, event: ConsumerGroupEvent) -> None:
        match event:
            case CurrentSaved(member_id=member_id, current=current):
                self._set_current(self._member(member_id), current)
            case CurrentDeleted(member_id=member_id):
                if member_id in self.members:
                    gone = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)
                    self._set_current(self.members[member_id], gone)
            case TargetSaved(member_id=member_id, partitions=partitions):
                self.targets[member_id] = partitions
            case TargetDeleted(member_id=member_id):
                self.targets.pop(member_id, None)
            case MemberSaved(member_id=member_id, subscription=subscription):
                self._set_subscription(self._member(member_id), subscription)
            case MemberDeleted(member_id=member_id):
                self._remove(member_id)
            case GroupEpochSaved(epoch=epoch, metadata_hash=metadata_hash):
                self.epoch, self.metadata_hash = epoch, metadata_hash
            case TargetEpochSaved(epoch=epoch, computed_at_ms=computed_at_ms):
                self.target_epoch, self.target_computed_at_ms = epoch, computed_at_ms
            case TargetEpochDeleted():
                self.target_epoch, self.target_computed_at_ms = DELETED_EPOCH, 0
            case PatternResolved():
                self.patterns[event.pattern] = Pattern(
                    event.topics, event.version, event.resolved_at_ms
                )
            case PatternForgotten(pattern=pattern):
                self.patterns.pop(pattern, None)
            case PartitionMetadataFound():
                self.has_partition_metadata = True
            case PartitionMetadataDeleted():
                self.has_partition_metadata = False
            case GroupEpochDeleted():
                raise AssertionError("whoever keeps the groups deletes them")

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ConsumerMember(member_id)
        return member

    def _set_current(self, member: ConsumerMember, current: CurrentAssignment) -> None:
        for topic_id, partition in _partitions_of(member.current):
            owned = self.owners.get(topic_id, {})
            if owned.get(partition) == member.member_id:
                del owned[partition]
                if not owned:
                    del self.owners[topic_id]
        for topic_id, partition in _partitions_of(current):
            self.owners.setdefault(topic_id, {})[partition] = member.member_id
        member.current = current

    def _set_subscription(self, member: ConsumerMember, subscription: MemberSubscription) -> None:
        before = member.subscription
        # Topics by the thousand: most changes are of few of them, or of something else.
        self._count_topics(before.topics - subscription.topics, -1)
        self._count_topics(subscription.topics - before.topics, 1)
        self._count(before, -1)
        self._count(subscription, 1)
        if member.subscription.instance_id != subscription.instance_id:
            self._forget_instance(member)
        if subscription.instance_id is not None:
            self.static_ids[subscription.instance_id] = member.member_id
        member.subscription = subscription

    def _remove(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None:
            return
        self._set_current(member, CurrentAssignment(assigned=NO_PARTITIONS))
        self._count_topics(member.subscription.topics, -1)
        self._count(member.subscription, -1)
        self._forget_instance(member)
        del self.members[member_id]

    def _forget_instance(self, member: ConsumerMember) -> None:
        instance_id = member.subscription.instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]

    def _count_topics(self, topics: frozenset[str], change: int) -> None:
        for topic in sorted(topics):
            _add(self.topic_counts, topic, change)

    def _count(self, subscription: MemberSubscription, change: int) -> None:
        """Counts what a member wants besides topics."""
        if subscription.pattern:
            _add(self.pattern_counts, subscription.pattern, change)
        if subscription.assignor is not None:
            _add(self.assignor_counts, subscription.assignor, change)
        if subscription.classic is not None:
            self.classic_count += change
            for name, _ in subscription.classic.protocols:
                _add(self.protocol_counts, name, change)


def described_member(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumerMember:
    """A member; what it has to give up is still its own."""
    subscription, current = member.subscription, member.current
    has: dict[UUID, frozenset[int]] = {}
    for topic_id, partition in _partitions_of(current):
        has[topic_id] = has.get(topic_id, frozenset()) | {partition}
    return DescribedConsumerMember(
        member.member_id,
        subscription.instance_id,
        subscription.rack_id,
        current.epoch,
        subscription.client_id,
        subscription.client_host,
        tuple(sorted(subscription.topics)),
        subscription.pattern,
        has,
        group.target(member.member_id),
        member.speaks_classic,
    )


def _add(counts: Counter[str], name: str, change: int) -> None:
    counts[name] += change
    if not counts[name]:
        del counts[name]


def _partitions_of(current: CurrentAssignment) -> Iterator[tuple[UUID, int]]:
    for partitions in (current.assigned, current.revoking):
        for topic_id, epochs in partitions.items():
            for partition in epochs:
                yield topic_id, partition


def _hash_topic(topic_id: UUID, partition_count: int) -> int:
    """A number for a topic and its partitions: the ids are random already, and partitions only get more."""
    folded = (topic_id.int ^ (topic_id.int >> HASH_BITS)) % (1 << HASH_BITS)
    return folded * (2 * partition_count + 1)
