"""A group changes its protocol while it has members: from classic to new, and back (KIP-848).

The first member of the new protocol upgrades a classic group; the last one that leaves downgrades it. Offsets stay as
they are, and every member keeps its partitions until the group rebalances.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from ottla.core.assignors.protocol import decode_assignment
from ottla.core.assignors.server_side.model import Partitions
from ottla.core.group.classic.group import CONSUMER, ClassicGroup, ClassicState, Member
from ottla.core.group.consumer.classic_members import by_topic_id, encode_classic, read_subscription
from ottla.core.group.consumer.events import (
    ClassicProtocols,
    ConsumerGroupEvent,
    CurrentAssignment,
    CurrentSaved,
    GroupEpochSaved,
    MemberSaved,
    MemberSubscription,
    TargetEpochSaved,
    TargetSaved,
)
from ottla.core.group.consumer.group import ConsumerGroup, ConsumerMember, TopicsView
from ottla.core.group.requests import ConsumerGroupConfig
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.types import MalformedMessageError

UNKNOWN_HASH = 0
# An upgrade reads and writes them all at once, and a small request may be its cause. Kafka's limit is that of a batch.
MAX_BYTES = 4 << 20


def check_upgrade(group: ClassicGroup, config: ConsumerGroupConfig) -> Refused | None:
    """Whether a classic group may follow the new protocol from now on."""
    start = f"Cannot upgrade classic group {group.group_id} to consumer group because"
    reason = None
    if not config.migration_policy.upgrades:
        reason = "online upgrade is disabled."
    elif not group.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol."
    elif len(group.members) > config.max_size:
        reason = "the group size exceeds the consumer group maximum size."
    elif _size_bytes(group) > MAX_BYTES:
        reason = f"its subscriptions and assignments have more than {MAX_BYTES} bytes."
    return None if reason is None else Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{start} {reason}")


def _size_bytes(group: ClassicGroup) -> int:
    return sum(
        sum(map(len, member.protocols.values())) + len(member.assignment)
        for member in group.members.values()
    )


def upgraded(group: ClassicGroup, topics: TopicsView) -> list[ConsumerGroupEvent] | Refused:
    """The events of a group of the new protocol in which all members have what the classic one assigned to them."""
    start = f"Cannot upgrade classic group {group.group_id} to consumer group because"
    events: list[ConsumerGroupEvent] = []
    targets: dict[str, Partitions] = {}
    for member in group.members.values():
        try:
            subscription = _upgraded_member(group, member, topics)
            assignment = decode_assignment(member.assignment) if member.assignment else None
        except MalformedMessageError:
            return Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{start} the embedded consumer protocol is malformed.",
            )
        if assignment is not None and assignment.user_data:
            return Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{start} an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade.",
            )
        targets[member.member_id] = (
            {} if assignment is None else by_topic_id(assignment.partitions, topics)
        )
        events.append(MemberSaved(group.group_id, member.member_id, subscription))
    made = ConsumerGroup(group.group_id)
    for event in events:
        made.apply(event)
    # If the leader was to assign again, the next epoch begins with the first heartbeat, also if the member that joins
    # changes nothing (its pattern may match no topic).
    is_settled = group.state is ClassicState.STABLE and _has_all(made, targets, topics)
    metadata_hash = made.hash_topics(topics) if is_settled else UNKNOWN_HASH
    events.append(GroupEpochSaved(group.group_id, group.generation, metadata_hash))
    for member_id, partitions in targets.items():
        events.append(TargetSaved(group.group_id, member_id, partitions))
    events.append(TargetEpochSaved(group.group_id, group.generation, 0))
    owned: dict[UUID, set[int]] = {}
    for member_id, partitions in targets.items():
        current = CurrentAssignment(
            group.generation,
            group.generation,
            assigned=_first_come(partitions, owned, group.generation),
        )
        events.append(CurrentSaved(group.group_id, member_id, current))
    return events


def _upgraded_member(group: ClassicGroup, member: Member, topics: TopicsView) -> MemberSubscription:
    """What a member of a classic group said of itself. Raises MalformedMessageError."""
    found = read_subscription(member.metadata(_some_protocol(group, member)), topics)
    return MemberSubscription(
        member.instance_id,
        found.rack_id,
        member.client_id,
        member.client_host,
        found.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(member.session_timeout_ms, tuple(member.protocols.items())),
    )


def _has_all(group: ConsumerGroup, targets: Mapping[str, Partitions], topics: TopicsView) -> bool:
    """Whether the members have all partitions of their topics: the leader may not know yet of new ones."""
    assigned: dict[UUID, set[int]] = {}
    for partitions in targets.values():
        for topic_id, numbers in partitions.items():
            assigned.setdefault(topic_id, set()).update(numbers)
    found = (topics.topics.get(name) for name in group.subscribed_topics())
    return all(
        len(assigned.get(topic.topic_id, ())) == topic.partition_count
        for topic in found
        if topic is not None
    )


def _some_protocol(group: ClassicGroup, member: Member) -> str:
    """The group's protocol; before its first generation any of the member's."""
    if group.protocol is not None and group.protocol in member.protocols:
        return group.protocol
    return next(iter(member.protocols))


def _first_come(
    partitions: Partitions, owned: dict[UUID, set[int]], epoch: int
) -> dict[UUID, dict[int, int]]:
    """The partitions without those that a leader has given to two members: they have one owner here."""
    found: dict[UUID, dict[int, int]] = {}
    for topic_id, numbers in partitions.items():
        taken = owned.setdefault(topic_id, set())
        free = sorted(numbers.difference(taken))
        taken.update(free)
        if free:
            found[topic_id] = dict.fromkeys(free, epoch)
    return found


def may_downgrade(
    group: ConsumerGroup,
    leaving: Collection[ConsumerMember],
    config: ConsumerGroupConfig,
    classic_max_size: int,
) -> bool:
    """Whether only members of the classic protocol are left, and may be a classic group."""
    left = len(group.members) - len(leaving)
    classic_left = group.classic_count - sum(member.speaks_classic for member in leaving)
    return (
        0 < left == classic_left and config.migration_policy.downgrades and left <= classic_max_size
    )


def downgraded(
    group: ConsumerGroup,
    leaving: Collection[ConsumerMember],
    topics: TopicsView,
    now_ms: int,
) -> ClassicGroup:
    """A classic group in which the members that are left have what they have, not what they were to get.

    Kafka gives them their targets. If the group is upgraded again before its members have joined once more, a partition
    that its owner was still to give up would be another member's as well.
    """
    made = ClassicGroup(group.group_id, now_ms)
    made.generation = group.epoch
    gone = {member.member_id for member in leaving}
    for member in group.members.values():
        if member.member_id in gone:
            continue
        subscription = member.subscription
        assert subscription.classic is not None
        assignment = encode_classic(member.held, member, topics)
        made.add(
            Member(
                member.member_id,
                subscription.instance_id,
                subscription.client_id,
                subscription.client_host,
                subscription.rebalance_timeout_ms,
                subscription.classic.session_timeout_ms,
                dict(subscription.classic.protocols),
                assignment,
            ),
            CONSUMER,
        )
    made.protocol = made.vote()
    made.start_stable()
    made.read_topics()
    return made
