"""Who may commit and fetch the offsets of a group of the new protocol."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.core.group.consumer.group import ConsumerGroup, ConsumerMember
from ottla.core.group.requests import NO_GENERATION, NO_MEMBER_ID, CommitSender, NewOffsets
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode


def unknown_member(group: ConsumerGroup, member_id: str) -> Refused:
    text = f"Member {member_id} is not a member of group {group.group_id}."
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, text)


def check_commit(
    group: ConsumerGroup, sender: CommitSender, offsets: Sequence[NewOffsets]
) -> Refused | None:
    """Whether the sender may commit these offsets: all of them or none."""
    if sender.generation < 0 and group.is_empty:
        return None  # a consumer that assigns its partitions itself, or an administrator
    member = group.members.get(sender.member_id)
    if member is not None and not member.speaks_classic and not sender.knows_epochs:
        return Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    return _check_member(group, sender, offsets)


def check_transactional_commit(
    group: ConsumerGroup, sender: CommitSender, offsets: Sequence[NewOffsets]
) -> Refused | None:
    """Clients before KIP-447 do not name their member: for them only the transaction counts."""
    names_no_member = (
        sender.generation == NO_GENERATION
        and sender.member_id == NO_MEMBER_ID
        and sender.instance_id is None
    )
    if names_no_member or (sender.generation < 0 and group.is_empty):
        return None
    return _check_member(group, sender, offsets)


def _check_member(
    group: ConsumerGroup, sender: CommitSender, offsets: Sequence[NewOffsets]
) -> Refused | None:
    member = group.members.get(sender.member_id)
    if member is None:
        return unknown_member(group, sender.member_id)
    if sender.generation == member.current.epoch:
        return None
    if sender.generation < member.current.epoch and all(
        _has_had_since(member, sender.generation, new) for new in offsets
    ):
        return None
    return _stale(member)


def _has_had_since(member: ConsumerMember, epoch: int, new: NewOffsets) -> bool:
    """Whether a member that is late with its heartbeat has had the partitions since that epoch (KIP-1251)."""
    if new.topic_id is None:
        return False
    assigned = member.current.assigned.get(new.topic_id, {})
    revoking = member.current.revoking.get(new.topic_id, {})
    for partition in new.partitions:
        assigned_in = assigned.get(partition, revoking.get(partition))
        if assigned_in is None or assigned_in > epoch:
            return False
    return True


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> Refused | None:
    """Whether a member may fetch committed offsets; administrators name no member."""
    if member_id is None and member_epoch < 0:
        return None
    member = group.members.get(member_id or NO_MEMBER_ID)
    if member is None:
        return unknown_member(group, member_id or NO_MEMBER_ID)
    return None if member_epoch == member.current.epoch else _stale(member)


def _stale(member: ConsumerMember) -> Refused:
    if member.speaks_classic:
        return Refused(ErrorCode.ILLEGAL_GENERATION)
    return Refused(ErrorCode.STALE_MEMBER_EPOCH)
