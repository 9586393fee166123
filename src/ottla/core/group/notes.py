"""What the broker's log says of groups and their members."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.core.group.classic import ClassicGroup
from ottla.core.group.requests import JoinRequest
from ottla.core.turn import Turn
from ottla.errors import ErrorCode


def note_refused(turn: Turn, request: JoinRequest, error: ErrorCode) -> None:
    """Somebody may not join."""
    turn.note(
        "join_refused",
        "group %(group)s: a join of client %(client_id)s was refused with %(error)s",
        group=request.group_id,
        client_id=request.client_id,
        error=error.name,
    )


def note_replaced(turn: Turn, group: ClassicGroup, old_id: str, new_id: str) -> None:
    """A static member restarted."""
    turn.note(
        "member_replaced",
        "group %(group)s: %(member_before)s is back as %(member)s",
        group=group.group_id,
        member=new_id,
        member_before=old_id,
    )


def note_left(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """A member says that it goes."""
    text = "group %(group)s: %(member)s leaves"
    turn.note("member_left", text, group=group.group_id, member=member_id)


def note_expired(turn: Turn, group: ClassicGroup, member_id: str, reason: str) -> None:
    """A member is taken for gone."""
    text = "group %(group)s: %(member)s %(reason)s"
    turn.note("member_expired", text, group=group.group_id, member=member_id, reason=reason)


def note_all_expired(
    turn: Turn, group: ClassicGroup, member_ids: Sequence[str], reason: str
) -> None:
    """Members are taken for gone, all for the same reason: one line, however many there are."""
    if len(member_ids) == 1:
        note_expired(turn, group, member_ids[0], reason)
    elif member_ids:
        turn.note(
            "members_expired",
            "group %(group)s: %(members)d members %(reason)s, %(member)s among them",
            group=group.group_id,
            members=len(member_ids),
            member=member_ids[0],
            reason=reason,
        )


def note_never_joined(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Somebody asked for a member id and did not come back with it, and the group has waited for that."""
    turn.note(
        "member_never_joined",
        "group %(group)s: its rebalance waited for %(member)s, which was given that id and never came back with it",
        group=group.group_id,
        member=member_id,
    )


def note_timed_out(turn: Turn, group: ClassicGroup) -> None:
    """A rebalance goes on without those who have not come."""
    turn.note(
        "rebalance_timed_out",
        "group %(group)s: its rebalance ends after %(timeout_ms)d ms although %(missing)d of %(members)d member(s) "
        "and %(unused_ids)d that were given an id have not joined",
        group=group.group_id,
        timeout_ms=group.rebalance_timeout_ms,
        missing=len(group.members) - group.joined_count,
        members=len(group.members),
        unused_ids=len(group.pending_joins),
    )


def note_forming(turn: Turn, group: ClassicGroup) -> None:
    """A generation begins."""
    turn.note(
        "group_forming",
        "group %(group)s: generation %(generation)d of %(members)d member(s), led by %(leader)s",
        group=group.group_id,
        generation=group.generation,
        members=len(group.members),
        leader=group.leader,
    )


def note_stable(turn: Turn, group: ClassicGroup) -> None:
    """Everybody has an assignment."""
    turn.note(
        "group_stable",
        "group %(group)s: generation %(generation)d is stable, %(members)d member(s) by %(protocol)s",
        group=group.group_id,
        generation=group.generation,
        members=len(group.members),
        protocol=group.protocol,
    )


def note_empty(turn: Turn, group: ClassicGroup) -> None:
    """The last member is gone."""
    text = "group %(group)s: nobody is left in it"
    turn.note("group_empty", text, group=group.group_id, generation=group.generation)
