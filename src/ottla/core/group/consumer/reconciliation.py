"""How a member comes from what it has to its target (KIP-848): it gives up, then gets what others have given up.

A partition is never given to a member before its owner has said that it does not own it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple
from uuid import UUID

from ottla.core.assignors.server_side.model import Partitions
from ottla.core.group.consumer.events import (
    NO_PARTITIONS,
    AssignedPartitions,
    CurrentAssignment,
    MemberState,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

NONE: frozenset[int] = frozenset()


class Target(NamedTuple):
    """What a member is to have, and from which epoch on."""

    epoch: int
    partitions: Partitions


class Reported(NamedTuple):
    """What the heartbeat says: what the member owns, if it says so, and the topics that it subscribes to."""

    owned: Partitions | None
    topic_ids: Container[UUID]
    subscription_changed: bool


# Whether a partition has an owner.
IsOwned = Callable[[UUID, int], bool]


def reconcile(
    current: CurrentAssignment, target: Target, reported: Reported, is_owned: IsOwned
) -> CurrentAssignment | Refused:
    """The next state of a member, or its current one if it cannot go on."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch != target.epoch:
                return _advance(current, target, reported, is_owned)
            return _drop_unsubscribed(current, reported)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(reported.owned, current.revoking):
                return _drop_unsubscribed(current, reported)
            return _advance(current, target, reported, is_owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(current, target, reported, is_owned)
        case MemberState.UNKNOWN:
            if reported.owned is None or reported.owned:
                return Refused(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            known = current._replace(epoch=target.epoch, state=MemberState.STABLE)
            return _advance(known, target, reported, is_owned)


def _still_owns(owned: Partitions | None, revoking: AssignedPartitions) -> bool:
    """Whether the member owns partitions that it has to give up; it does until it says what it owns."""
    if owned is None:
        return True
    for topic_id, partitions in owned.items():
        if topic_id in revoking and not partitions.isdisjoint(revoking[topic_id]):
            return True
    return False


def _drop_unsubscribed(current: CurrentAssignment, reported: Reported) -> CurrentAssignment:
    """Takes away topics to which the member has just ended its subscription, without waiting for a new target."""
    if not reported.subscription_changed:
        return current
    dropped = {
        topic_id: epochs
        for topic_id, epochs in current.assigned.items()
        if topic_id not in reported.topic_ids
    }
    if not dropped:
        return current
    kept = {
        topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id not in dropped
    }
    revoking = dict(current.revoking)
    for topic_id, epochs in dropped.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    if _still_owns(reported.owned, revoking):
        return CurrentAssignment(
            current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking
        )
    return current._replace(previous_epoch=current.epoch, assigned=kept)


def _advance(
    current: CurrentAssignment, target: Target, reported: Reported, is_owned: IsOwned
) -> CurrentAssignment:
    """Gives up what is not in the target; then takes what is, as far as it is free."""
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    to_assign: dict[UUID, list[int]] = {}
    lacks_partitions = False
    for topic_id in {**target.partitions, **current.assigned}:
        wanted = NONE
        if topic_id in reported.topic_ids:
            wanted = target.partitions.get(topic_id, NONE)
        has = current.assigned.get(topic_id, {})
        kept = {partition: epoch for partition, epoch in has.items() if partition in wanted}
        if kept:
            assigned[topic_id] = kept
        if len(kept) < len(has):
            revoking[topic_id] = {
                partition: epoch for partition, epoch in has.items() if partition not in wanted
            }
        # What the member itself has to give up is not somebody else's.
        giving_up = current.revoking.get(topic_id, {})
        for partition in sorted(wanted.difference(kept)):
            if partition not in giving_up and is_owned(topic_id, partition):
                lacks_partitions = True
            else:
                to_assign.setdefault(topic_id, []).append(partition)
    if revoking and _still_owns(reported.owned, revoking):
        return CurrentAssignment(
            current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking
        )
    for topic_id, partitions in to_assign.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target.epoch))
    state = MemberState.UNRELEASED_PARTITIONS if lacks_partitions else MemberState.STABLE
    return CurrentAssignment(target.epoch, current.epoch, state, assigned, NO_PARTITIONS)
