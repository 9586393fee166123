"""Deliberate bugs in groups of the new protocol, each of which the simulator has to find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.sim.group_bugs import Bug

from ottla.core.group import machine as group_machine
from ottla.core.group.consumer import (
    classic_members,
    commit_rules,
    membership,
    migration,
    reconciliation,
    targets,
)
from ottla.core.group.consumer.events import (
    CurrentSaved,
    GroupEpochSaved,
    TargetSaved,
)
from ottla.core.group.consumer.group import ConsumerGroup, ConsumerMember
from ottla.core.group.consumer.membership import ConsumerMembership
from ottla.core.group.events import OffsetDeleted
from ottla.core.group.machine import GroupMachine
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode


def partitions_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "is_owned", lambda group, topic_id, partition: False)


def revocations_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_still_owns", lambda owned, revoking: False)


def what_is_given_up_is_free_at_once(patch: pytest.MonkeyPatch) -> None:
    """A partition that its owner has not given up yet seems to be nobody's."""
    original = ConsumerGroup._set_current

    def set_current(group: ConsumerGroup, member: ConsumerMember, current: Any) -> None:
        original(group, member, current)
        for topic_id, partitions in current.revoking.items():
            for partition in partitions:
                group.owners.get(topic_id, {}).pop(partition, None)

    patch.setattr(ConsumerGroup, "_set_current", set_current)


def sessions_never_end(patch: pytest.MonkeyPatch) -> None:
    _without_timer(patch, "session")


def revocations_never_end(patch: pytest.MonkeyPatch) -> None:
    _without_timer(patch, "revocation")


def classic_members_need_not_join_again(patch: pytest.MonkeyPatch) -> None:
    """Heartbeats of members of the classic protocol tell nothing of a new target."""

    def heartbeat(members: Any, turn: Turn, group: ConsumerGroup, request: Any) -> Refused | None:
        found = classic_members._classic_member(
            group, request.member_id, request.instance_id, request.generation
        )
        if isinstance(found, Refused):
            return found
        members._membership.renew_session(turn, group, found)
        return None

    patch.setattr(classic_members.ClassicMembers, "heartbeat", heartbeat)


def _without_timer(patch: pytest.MonkeyPatch, kind: str) -> None:
    def set_timer(members: ConsumerMembership, turn: Turn, timer: Any, delay_ms: int) -> None:
        late_ms = 10**9 if timer[0] == kind else delay_ms
        members.deadlines.set(timer, turn.uptime_ms + late_ms)

    patch.setattr(ConsumerMembership, "set_timer", set_timer)


def _unwritten(patch: pytest.MonkeyPatch, kind: type[Any]) -> None:
    """Events of a kind take effect and are not durable."""
    original = GroupMachine._write

    def write(machine: GroupMachine, turn: Turn, event: Any, producer: Any = None) -> None:
        if isinstance(event, kind):
            machine.apply(event)
        else:
            original(machine, turn, event, producer)

    patch.setattr(GroupMachine, "_write", write)


def epochs_are_not_written(patch: pytest.MonkeyPatch) -> None:
    _unwritten(patch, GroupEpochSaved)


def targets_are_not_written(patch: pytest.MonkeyPatch) -> None:
    _unwritten(patch, TargetSaved)


def assignments_are_not_written(patch: pytest.MonkeyPatch) -> None:
    _unwritten(patch, CurrentSaved)


def removals_begin_no_epoch(patch: pytest.MonkeyPatch) -> None:
    """The partitions of a member that is gone are not assigned again."""

    def remove(
        members: ConsumerMembership, turn: Turn, group: ConsumerGroup, leaving: Sequence[Any]
    ) -> None:
        if leaving and members.may_downgrade(group, leaving):
            members.downgrade(turn, group, leaving)
            return
        for member in leaving:
            members._forget_member(turn, group, member)

    patch.setattr(ConsumerMembership, "remove", remove)


def changes_of_topics_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    original = ConsumerMembership.advance_epoch

    def advance(
        members: ConsumerMembership, turn: Turn, group: ConsumerGroup, *, bump: bool
    ) -> None:
        if bump:
            original(members, turn, group, bump=bump)

    patch.setattr(ConsumerMembership, "advance_epoch", advance)


def patterns_are_resolved_once(patch: pytest.MonkeyPatch) -> None:
    def needs_refresh(group: ConsumerGroup, *rest: Any) -> bool:
        return any(pattern not in group.patterns for pattern in group.pattern_counts)

    patch.setattr(membership, "needs_refresh", needs_refresh)


def anybody_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_machine, "check_commit", lambda group, sender, offsets: None)


def old_epochs_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_rules, "_has_had_since", lambda member, epoch, new: True)


def instances_are_not_held(patch: pytest.MonkeyPatch) -> None:
    """A static member is replaced while it is there."""
    original = membership._find_place

    def find_place(group: ConsumerGroup, request: Any) -> Any:
        found = original(group, request)
        if isinstance(found, Refused) and found.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            return group.static_member(request.instance_id)
        return found

    patch.setattr(membership, "_find_place", find_place)


def lost_answers_fence(patch: pytest.MonkeyPatch) -> None:
    """A member that has not heard of its new epoch is refused."""
    patch.setattr(membership, "_is_within", lambda owned, current: False)


def assignments_are_told_once(patch: pytest.MonkeyPatch) -> None:
    """A member that has missed its assignment never hears of it."""
    patch.setattr(membership, "_wants_assignment", lambda request: False)


def timers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerMembership, "resume", lambda members, turn: None)


def upgrades_forget_assignments(patch: pytest.MonkeyPatch) -> None:
    """Members of a classic group have nothing when it follows the new protocol."""
    patch.setattr(migration, "_first_come", lambda partitions, owned, epoch: {})


def upgrades_lose_a_member(patch: pytest.MonkeyPatch) -> None:
    original = migration.upgraded

    def upgraded(group: Any, topics: Any) -> Any:
        if len(group.members) > 1:
            group.members.popitem()
        return original(group, topics)

    patch.setattr(group_machine, "upgraded", upgraded)


def downgrades_lose_a_member(patch: pytest.MonkeyPatch) -> None:
    original = migration.downgraded

    def downgraded(group: Any, leaving: Any, topics: Any, now_ms: int) -> Any:
        made = original(group, leaving, topics, now_ms)
        if len(made.members) > 1:
            made.remove(next(iter(made.members)))
        return made

    patch.setattr(group_machine, "downgraded", downgraded)


def downgrades_leave_records(patch: pytest.MonkeyPatch) -> None:
    def delete_group(members: ConsumerMembership, turn: Turn, group: ConsumerGroup) -> None:
        for member in group.members.values():
            members.cancel_timers(group, member)
        members.groups.pop(group.group_id, None)

    patch.setattr(ConsumerMembership, "delete_group", delete_group)


def upgrades_delete_offsets(patch: pytest.MonkeyPatch) -> None:
    original = GroupMachine._upgrade

    def upgrade(machine: GroupMachine, turn: Turn, classic: Any) -> Any:
        for offset in machine.offsets.of_group(classic.group_id):
            machine._write(
                turn,
                OffsetDeleted(classic.group_id, offset.topic, offset.partition),
            )
        return original(machine, turn, classic)

    patch.setattr(GroupMachine, "_upgrade", upgrade)


def a_member_is_left_out(patch: pytest.MonkeyPatch) -> None:
    """A target for all but one."""
    original = targets.compute_targets

    def compute(group: ConsumerGroup, assignor: str, view: Any) -> Any:
        computed = original(group, assignor, view)
        if len(computed) > 1:
            computed[next(iter(computed))] = {}
        return computed

    patch.setattr(membership, "compute_targets", compute)


def static_members_that_are_away_lose_everything(patch: pytest.MonkeyPatch) -> None:
    """Another member gets the partitions of a static one that leaves for a while, and it gets them back, too."""
    original = ConsumerMembership._suspend

    def suspend(members: ConsumerMembership, turn: Turn, group: Any, member: Any) -> None:
        original(members, turn, group, member)
        group.owners.clear()

    patch.setattr(ConsumerMembership, "_suspend", suspend)


CONSUMER_BUGS: tuple[Bug, ...] = (
    partitions_are_not_waited_for,
    revocations_are_not_waited_for,
    what_is_given_up_is_free_at_once,
    sessions_never_end,
    classic_members_need_not_join_again,
    upgrades_forget_assignments,
    epochs_are_not_written,
    targets_are_not_written,
    assignments_are_not_written,
    removals_begin_no_epoch,
    changes_of_topics_are_not_seen,
    patterns_are_resolved_once,
    anybody_commits,
    old_epochs_commit,
    instances_are_not_held,
    lost_answers_fence,
    assignments_are_told_once,
    timers_are_forgotten,
    upgrades_lose_a_member,
    downgrades_lose_a_member,
    downgrades_leave_records,
    upgrades_delete_offsets,
    a_member_is_left_out,
    static_members_that_are_away_lose_everything,
    revocations_never_end,
)
