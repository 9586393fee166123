"""Messages for the broker's log that groups of both protocols have."""

from __future__ import annotations

from ottla.core.group.classic.group import ClassicGroup
from ottla.core.group.consumer.group import ConsumerGroup
from ottla.core.turn import Turn

Group = ClassicGroup | ConsumerGroup


def log_replaced(turn: Turn, group: Group, old_id: str, new_id: str) -> None:
    """A static member has restarted."""
    turn.log(
        "member_replaced",
        "group %(group)s: static member %(member_before)s has restarted as %(member)s",
        group=group.group_id,
        member=new_id,
        member_before=old_id,
    )


def log_left(turn: Turn, group: Group, member_id: str) -> None:
    """A member leaves."""
    text = "group %(group)s: %(member)s leaves"
    turn.log("member_left", text, group=group.group_id, member=member_id)


def log_expired(turn: Turn, group: Group, member_id: str, reason: str) -> None:
    """A member has missed a deadline and is removed."""
    text = "group %(group)s: %(member)s %(reason)s"
    turn.log("member_expired", text, group=group.group_id, member=member_id, reason=reason)
