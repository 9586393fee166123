"""Messages of groups of the classic protocol for the broker's log."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.core.group.classic.group import ClassicGroup
from ottla.core.group.log_messages import log_expired
from ottla.core.group.requests import JoinRequest
from ottla.core.turn import Turn
from ottla.errors import ErrorCode

# As much of a client's own words as Kafka's clients send (KIP-800).
MAX_REASON_CHARS = 255


def log_begins(turn: Turn, group: ClassicGroup, reason: str) -> None:
    """All members have to join again."""
    turn.log(
        "rebalance_begins",
        "group %(group)s: a rebalance begins after generation %(generation)d: %(reason)s",
        group=group.group_id,
        generation=group.generation,
        reason=reason,
    )


def in_own_words(what: str, reason: str | None) -> str:
    """What a client did, with the reason that it gave."""
    return what if not reason else f"{what} ({reason[:MAX_REASON_CHARS]})"


def counted(member_ids: Sequence[str]) -> str:
    """A member, or one of several and how many others."""
    others = len(member_ids) - 1
    return member_ids[0] if not others else f"{member_ids[0]} and {others} other member(s)"


def log_refused(turn: Turn, request: JoinRequest, error: ErrorCode) -> None:
    """A join was refused."""
    turn.log(
        "join_refused",
        "group %(group)s: a join of client %(client_id)s was refused with %(error)s",
        group=request.group_id,
        client_id=request.client_id,
        error=error.name,
    )


def log_all_expired(
    turn: Turn, group: ClassicGroup, member_ids: Sequence[str], reason: str
) -> None:
    """Members have missed the same deadline and are removed: one line, however many there are."""
    if len(member_ids) == 1:
        log_expired(turn, group, member_ids[0], reason)
    elif member_ids:
        turn.log(
            "members_expired",
            "group %(group)s: %(members)d members %(reason)s, %(member)s among them",
            group=group.group_id,
            members=len(member_ids),
            member=member_ids[0],
            reason=reason,
        )


def log_never_joined(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """A rebalance has waited for a client that got a member id and never joined with it."""
    turn.log(
        "member_never_joined",
        "group %(group)s: the rebalance waited for %(member)s, a new member id with which no client has joined",
        group=group.group_id,
        member=member_id,
    )


def log_timed_out(turn: Turn, group: ClassicGroup) -> None:
    """A rebalance goes on without the members that have not joined."""
    turn.log(
        "rebalance_timed_out",
        "group %(group)s: the rebalance timed out after %(timeout_ms)d ms: %(missing)d of %(members)d member(s) "
        "and %(unused_ids)d new member id(s) have not joined",
        group=group.group_id,
        timeout_ms=group.rebalance_timeout_ms,
        missing=len(group.members) - group.joined_count,
        members=len(group.members),
        unused_ids=len(group.pending_joins),
    )


def log_forming(turn: Turn, group: ClassicGroup) -> None:
    """A generation begins."""
    turn.log(
        "group_forming",
        "group %(group)s: generation %(generation)d of %(members)d member(s), led by %(leader)s",
        group=group.group_id,
        generation=group.generation,
        members=len(group.members),
        leader=group.leader,
    )


def log_stable(turn: Turn, group: ClassicGroup) -> None:
    """All members have an assignment."""
    turn.log(
        "group_stable",
        "group %(group)s: generation %(generation)d is stable, %(members)d member(s) by %(protocol)s",
        group=group.group_id,
        generation=group.generation,
        members=len(group.members),
        protocol=group.protocol,
    )


def log_empty(turn: Turn, group: ClassicGroup) -> None:
    """The last member has left."""
    text = "group %(group)s: the last member has left"
    turn.log("group_empty", text, group=group.group_id, generation=group.generation)
