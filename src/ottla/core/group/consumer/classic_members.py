"""Members of the classic protocol in a group of the new one, while its clients change their protocol one by one.

The coordinator assigns for them, too: a heartbeat sends them to join again when their target has changed, the JoinGroup
brings what they own and reconciles, and the SyncGroup returns what they have. Nothing waits, and nobody leads.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ottla.core.assignors.model import Assignment
from ottla.core.assignors.protocol import (
    NEWEST_VERSION,
    decode_subscription,
    encode_assignment,
)
from ottla.core.assignors.server_side.model import Partitions
from ottla.core.group.classic.group import CONSUMER
from ottla.core.group.consumer.commit_rules import unknown_member
from ottla.core.group.consumer.events import (
    AssignedPartitions,
    ClassicProtocols,
    MemberState,
    MemberSubscription,
)
from ottla.core.group.consumer.group import ConsumerGroup, ConsumerMember, TopicsView
from ottla.core.group.consumer.membership import ConsumerMembership, Timer, check_static
from ottla.core.group.requests import (
    NO_MEMBER_ID,
    HeartbeatRequest,
    Joined,
    JoinRefused,
    JoinRequest,
    Leaver,
    LeaveResults,
    MigrationPolicy,
    Synced,
    SyncRequest,
)
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.compile import stored_version
from ottla.wire.stored.consumer_protocol import check_size, subscribed_topics
from ottla.wire.types import MalformedMessageError

NO_LEADER = ""


class ClassicSubscription(NamedTuple):
    """What a JoinGroup says in the bytes of its first protocol."""

    topics: frozenset[str]
    owned: Partitions
    rack_id: str | None


class ClassicMembers:
    """The requests of the classic protocol to groups of the new one."""

    def __init__(self, membership: ConsumerMembership, topics: TopicsView) -> None:
        self._membership = membership
        self._topics = topics

    # Joining.

    def check_join(
        self, group: ConsumerGroup, request: JoinRequest, policy: MigrationPolicy
    ) -> JoinRefused | None:
        """Whether a client of the classic protocol may join, and with the id that it has."""
        if policy is MigrationPolicy.DISABLED:
            return JoinRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER_ID)
        full = self._membership.check_room(group.group_id, group.members, request.member_id)
        if full is not None:
            return JoinRefused(full.error, NO_MEMBER_ID)
        if not group.supports(request.protocol_type, request.protocols):
            return JoinRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER_ID)
        if (
            request.member_id == NO_MEMBER_ID
            and request.instance_id is None
            and request.knows_handshake
        ):
            return JoinRefused(ErrorCode.MEMBER_ID_REQUIRED, request.new_member_id)
        if request.member_id != NO_MEMBER_ID and request.instance_id is not None:
            found = check_static(group, request.member_id, request.instance_id)
            if isinstance(found, Refused):
                return JoinRefused(found.error, NO_MEMBER_ID)
        return None

    def join(self, turn: Turn, group: ConsumerGroup, request: JoinRequest) -> Joined | JoinRefused:
        """A client joins, or joins again to get the rest of its target; `check_join` allowed it."""
        try:
            # All protocols of a client have the same subscription.
            first = next(iter(request.protocols.values()))
            subscription = read_subscription(first, self._topics)
        except MalformedMessageError:
            return JoinRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER_ID)
        membership, member_id = self._membership, request.member_id or request.new_member_id
        static = group.static_member(request.instance_id)
        # A static member that was the last of the new protocol may have come back with the classic one.
        may_end_migration = static is not None and not static.speaks_classic
        membership.take_place(turn, group, static or group.members.get(member_id), member_id)
        updated = _member_subscription(group.members.get(member_id), request, subscription)
        changed = membership.update(turn, group, member_id, updated)
        member = group.members[member_id]
        membership.advance_epoch(turn, group, bump=changed.subscription)
        ends_migration = may_end_migration and membership.may_downgrade(group, ())
        if not ends_migration:
            membership.update_targets(turn, group)
        if not ends_migration or group.target_epoch >= group.epoch:
            membership.reconcile(turn, group, member, subscription.owned, changed.subscription)
        joined = Joined(
            member_id, member.current.epoch, CONSUMER, first_protocol(member), NO_LEADER
        )
        if ends_migration:
            membership.downgrade(turn, group, ())
            return joined
        membership.deadlines.cancel(("join", group.group_id, member_id))
        membership.renew_session(turn, group, member)
        membership.set_timer(
            turn, ("sync", group.group_id, member_id), request.rebalance_timeout_ms
        )
        return joined

    # Syncing.

    def sync(self, turn: Turn, group: ConsumerGroup, request: SyncRequest) -> Synced | Refused:
        member = _classic_member(group, request.member_id, request.instance_id, request.generation)
        if isinstance(member, Refused):
            return member
        if request.protocol_type not in (None, CONSUMER):
            return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.protocol not in (None, first_protocol(member)):
            return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_late = group.target_epoch > member.current.epoch
        if is_late and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(turn, group, member)
            return Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        self._membership.deadlines.cancel(("sync", group.group_id, member.member_id))
        self._membership.renew_session(turn, group, member)
        assignment = encode_classic(member.current.assigned, member, self._topics)
        return Synced(request.protocol_type, request.protocol, assignment)

    # Staying.

    def heartbeat(
        self, turn: Turn, group: ConsumerGroup, request: HeartbeatRequest
    ) -> Refused | None:
        member = _classic_member(group, request.member_id, request.instance_id, request.generation)
        if isinstance(member, Refused):
            return member
        self._membership.renew_session(turn, group, member)
        if group.classic_count == len(group.members):
            # Nobody heartbeats who would bring the targets up to date. (In Kafka such a group, which is not to be
            # downgraded, leaves the partitions of a member that is gone, and new ones, to nobody until a client joins.)
            start = len(turn.written)
            self._membership.advance_epoch(turn, group, bump=False)
            self._membership.update_targets(turn, group)
            turn.keep_together(start)
        state = member.current.state
        if (
            member.current.epoch < group.target_epoch
            or state is MemberState.UNREVOKED_PARTITIONS
            or (state is MemberState.UNRELEASED_PARTITIONS and not group.awaits_release(member))
        ):
            self._expect_join(turn, group, member)
            return Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def _expect_join(self, turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
        timer: Timer = ("join", group.group_id, member.member_id)
        if timer not in self._membership.deadlines:
            self._membership.set_timer(turn, timer, member.subscription.rebalance_timeout_ms)

    # Leaving.

    def leave(self, turn: Turn, group: ConsumerGroup, leavers: tuple[Leaver, ...]) -> LeaveResults:
        """Removes members of either protocol; an administrator names only the instance id."""
        results: list[tuple[Leaver, Refused | None]] = []
        leaving: dict[str, ConsumerMember] = {}
        for leaver in leavers:
            found = _leaving(group, leaver)
            results.append((leaver, found if isinstance(found, Refused) else None))
            if not isinstance(found, Refused):
                leaving[found.member_id] = found
        self._membership.remove(turn, group, list(leaving.values()))
        return tuple(results)


def _leaving(group: ConsumerGroup, leaver: Leaver) -> ConsumerMember | Refused:
    if leaver.instance_id is None:
        member = group.members.get(leaver.member_id)
        return unknown_member(group, leaver.member_id) if member is None else member
    if leaver.member_id != NO_MEMBER_ID:
        return check_static(group, leaver.member_id, leaver.instance_id)
    static = group.static_member(leaver.instance_id)
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID) if static is None else static


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerMember | Refused:
    if instance_id is not None:
        found = check_static(group, member_id, instance_id)
        if isinstance(found, Refused):
            return found
    member = group.members.get(member_id)
    if member is None or not member.speaks_classic:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.current.epoch:
        return Refused(ErrorCode.ILLEGAL_GENERATION)
    return member


def _member_subscription(
    member: ConsumerMember | None, request: JoinRequest, subscription: ClassicSubscription
) -> MemberSubscription:
    before = MemberSubscription() if member is None else member.subscription
    return MemberSubscription(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if subscription.rack_id is None else subscription.rack_id,
        request.client_id,
        request.client_host,
        subscription.topics,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        assignor=before.assignor,
        classic=ClassicProtocols(request.session_timeout_ms, tuple(request.protocols.items())),
    )


# The bytes of the classic protocol.


def first_protocol(member: ConsumerMember) -> str:
    """The protocol of a member of the classic protocol; for the coordinator all of them are the same."""
    classic = member.subscription.classic
    assert classic is not None
    return classic.protocols[0][0]


def read_subscription(metadata: bytes, topics: TopicsView) -> ClassicSubscription:
    """A subscription of the classic protocol. Raises MalformedMessageError."""
    check_size(metadata)
    try:
        found = decode_subscription(metadata)
    except MalformedMessageError:
        # Some clients write version 1 without the field that it added: they own nothing when they join.
        return ClassicSubscription(frozenset(subscribed_topics(metadata)), {}, None)
    return ClassicSubscription(
        frozenset(found.topics), by_topic_id(found.owned_partitions, topics), found.rack_id
    )


def by_topic_id(partitions: tuple[TopicPartition, ...], topics: TopicsView) -> Partitions:
    """Partitions by the ids of their topics, without those that do not exist: a topic's successor may have fewer."""
    found: dict[UUID, set[int]] = {}
    for name, partition in partitions:
        topic = topics.topics.get(name)
        if topic is not None and 0 <= partition < topic.partition_count:
            found.setdefault(topic.topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}


def encode_classic(
    assigned: AssignedPartitions | Partitions, member: ConsumerMember, topics: TopicsView
) -> bytes:
    """An assignment as the member reads it: in the version of its subscription."""
    classic = member.subscription.classic
    assert classic is not None
    partitions = tuple(
        TopicPartition(topic.name, partition)
        for topic_id, numbers in assigned.items()
        if (topic := topics.topics_by_id.get(topic_id)) is not None
        for partition in sorted(numbers)
    )
    try:
        version = stored_version(classic.protocols[0][1])
    except MalformedMessageError:
        version = 0  # only the protocol of the classic group was read when the group was upgraded
    return encode_assignment(Assignment(partitions), min(max(version, 0), NEWEST_VERSION))
