"""Who may commit and fetch the offsets of a group of the new protocol."""

from __future__ import annotations

from ottla.core.group.consumer.group import ConsumerGroup, ConsumerMember
from ottla.core.group.requests import NO_GENERATION, NO_MEMBER_ID, CommitSender, NewOffset
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode


def unknown_member(group: ConsumerGroup, member_id: str) -> Refused:
    text = f"Member {member_id} is not a member of group {group.group_id}."
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, text)


class EpochRule:
    """Decides for each partition of a commit with an older epoch (KIP-1251).

    A member that is late with its heartbeat may commit a partition that it has had since that epoch.
    """

    def __init__(self, member: ConsumerMember, epoch: int) -> None:
        self._member = member
        self._epoch = epoch

    def check(self, new: NewOffset) -> Refused | None:
        current = self._member.current
        assigned_in = None
        if new.topic_id is not None:
            for partitions in (current.assigned, current.revoking):
                assigned_in = partitions.get(new.topic_id, {}).get(new.partition, assigned_in)
        if assigned_in is None or self._epoch < assigned_in:
            return Refused(_stale(self._member))
        return None


def check_commit(
    group: ConsumerGroup, sender: CommitSender, *, in_transaction: bool
) -> Refused | EpochRule | None:
    """Whether the sender may commit all of its offsets (None), or each by the epoch in which it was assigned."""
    if sender.generation < 0 and group.is_empty:
        return None  # a consumer that assigns its partitions itself, or an administrator
    names_no_member = (
        sender.generation == NO_GENERATION
        and sender.member_id == NO_MEMBER_ID
        and sender.instance_id is None
    )
    if in_transaction and names_no_member:
        return None  # a client before KIP-447
    member = group.members.get(sender.member_id)
    if member is None:
        return unknown_member(group, sender.member_id)
    if not in_transaction and not member.speaks_classic and not sender.knows_epochs:
        return Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if sender.generation == member.current.epoch:
        return None
    if sender.generation > member.current.epoch:
        return Refused(_stale(member))
    return EpochRule(member, sender.generation)


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> Refused | None:
    """Whether a member may fetch committed offsets; administrators name no member."""
    if member_id is None and member_epoch < 0:
        return None
    member = group.members.get(member_id or NO_MEMBER_ID)
    if member is None:
        return unknown_member(group, member_id or NO_MEMBER_ID)
    return None if member_epoch == member.current.epoch else Refused(_stale(member))


def _stale(member: ConsumerMember) -> ErrorCode:
    if member.speaks_classic:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH
