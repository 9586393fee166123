"""Messages of groups of the new protocol for the broker's log."""

from __future__ import annotations

from ottla.core.group.classic.group import ClassicGroup
from ottla.core.group.consumer.group import ConsumerGroup
from ottla.core.turn import Turn


def log_joined(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """A member joins."""
    text = "group %(group)s: %(member)s joins"
    turn.log("member_joined", text, group=group.group_id, member=member_id)


def log_epoch(turn: Turn, group: ConsumerGroup) -> None:
    """The group's members or topics have changed."""
    turn.log(
        "group_rebalances",
        "group %(group)s: epoch %(epoch)d begins with %(members)d members",
        group=group.group_id,
        epoch=group.epoch,
        members=len(group.members),
    )


def log_upgraded(turn: Turn, group: ConsumerGroup) -> None:
    """A classic group follows the new protocol from now on."""
    turn.log(
        "group_upgraded",
        "group %(group)s: classic until now, now of the consumer protocol, with %(members)d members",
        group=group.group_id,
        members=len(group.members),
    )


def log_downgraded(turn: Turn, group: ClassicGroup) -> None:
    """A group follows the classic protocol again."""
    turn.log(
        "group_downgraded",
        "group %(group)s: of the consumer protocol until now, now classic, with %(members)d members",
        group=group.group_id,
        members=len(group.members),
    )
