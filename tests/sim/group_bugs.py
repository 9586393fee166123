"""Deliberate bugs in the coordination of groups: the simulator has to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.coordination import machine_log
from ottla.broker.coordination.coordinator import Coordinator
from ottla.core.group.classic.group import ClassicGroup
from ottla.core.group.classic.membership import Membership
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import Synced
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode

Bug = Callable[[pytest.MonkeyPatch], None]


def any_generation_commits(patch: pytest.MonkeyPatch) -> None:
    def refuse(machine: GroupMachine, group: ClassicGroup, sender: Any) -> Refused | None:
        return group.check_member(sender.member_id, sender.instance_id)

    patch.setattr(GroupMachine, "_check_member", refuse)


def anybody_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "_check_commit", lambda machine, sender: None)


def commits_between_generations(patch: pytest.MonkeyPatch) -> None:
    """A member that left is in the group until the next generation, if only the generation is looked at."""
    original = ClassicGroup.remove

    def remove(group: ClassicGroup, member_id: str) -> Any:
        member = original(group, member_id)
        if member is not None:
            group.__dict__.setdefault("ghosts", {})[member_id] = None
        return member

    def check_member(group: ClassicGroup, member_id: str) -> Refused | None:
        ghosts = group.__dict__.get("ghosts", {})
        if member_id in ghosts or member_id in group.members:
            return None
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID)

    def refuse(machine: GroupMachine, group: ClassicGroup, sender: Any) -> Refused | None:
        refused = check_member(group, sender.member_id)
        if refused is not None:
            return refused
        is_current = sender.generation == group.generation
        return None if is_current else Refused(ErrorCode.ILLEGAL_GENERATION)

    patch.setattr(ClassicGroup, "remove", remove)
    patch.setattr(GroupMachine, "_check_member", refuse)


def groups_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "_save", lambda machine, turn, group: None)


def offsets_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        GroupMachine, "_write", lambda machine, turn, event, producer=None: machine.apply(event)
    )


def answered_before_durable(patch: pytest.MonkeyPatch) -> None:
    def release_later(coordinator: Any, settled: Any, answers: Any, effects: Any) -> None:
        coordinator._release(answers, effects)

    patch.setattr(Coordinator, "_release_later", release_later)


def reads_overtake_writes(patch: pytest.MonkeyPatch) -> None:
    original = Coordinator._release_later

    def release_later(coordinator: Any, settled: Any, answers: Any, effects: Any) -> None:
        if settled is None:
            coordinator._release(answers, effects)
        else:
            original(coordinator, settled, answers, effects)

    patch.setattr(Coordinator, "_release_later", release_later)


def pending_members_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = Membership.join

    def join(membership: Membership, turn: Turn, request: Any, ticket: Any) -> None:
        original(membership, turn, request, ticket)
        group = membership.groups.get(request.group_id)
        if group is not None:
            group.pending_joins.clear()

    patch.setattr(Membership, "join", join)


def coordinators_outlive_leadership(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordinator, "gone", lambda coordinator: None)


def sessions_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_session_is_over", lambda membership, turn, group, member_id: None)


def rebalances_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_join_time_is_up", lambda membership, turn, group: None)


def syncs_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_sync_time_is_up", lambda membership, turn, group: None)


def static_members_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """Two processes with the same instance id take the place from each other for ever."""

    def check_member(
        group: ClassicGroup, member_id: str, instance_id: str | None
    ) -> Refused | None:
        return None if member_id in group.members else Refused(ErrorCode.UNKNOWN_MEMBER_ID)

    patch.setattr(ClassicGroup, "check_member", check_member)


def old_ids_of_static_members_stay_good(patch: pytest.MonkeyPatch) -> None:
    def refuse(machine: GroupMachine, group: ClassicGroup, sender: Any) -> Refused | None:
        member_id = group.static_ids.get(sender.instance_id or "", sender.member_id)
        if member_id not in group.members:
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        is_current = sender.generation == group.generation
        return None if is_current else Refused(ErrorCode.ILLEGAL_GENERATION)

    patch.setattr(GroupMachine, "_check_member", refuse)


def generations_stand_still(patch: pytest.MonkeyPatch) -> None:
    original = ClassicGroup.begin_generation

    def begin(group: ClassicGroup, now_ms: int) -> None:
        original(group, now_ms)
        group.generation -= group.generation > 1

    patch.setattr(ClassicGroup, "begin_generation", begin)


def everybody_gets_the_leaders_share(patch: pytest.MonkeyPatch) -> None:
    def assigned(membership: Membership, group: ClassicGroup, member: Any) -> Synced:
        leader = group.members[group.leader or ""]
        return Synced(group.protocol_type, group.protocol, leader.assignment)

    patch.setattr(Membership, "_assigned", assigned)


def anybody_assigns(patch: pytest.MonkeyPatch) -> None:
    original = Membership.sync

    def sync(membership: Membership, turn: Turn, request: Any, ticket: Any) -> None:
        group = membership.groups.get(request.group_id)
        if group is not None and request.assignments and request.member_id in group.members:
            group.leader = request.member_id
        original(membership, turn, request, ticket)

    patch.setattr(Membership, "sync", sync)


def old_assignments_are_kept(patch: pytest.MonkeyPatch) -> None:
    """A member that the leader did not hear of keeps what it had."""

    def assign(membership: Membership, turn: Turn, group: ClassicGroup, request: Any) -> None:
        for member in group.members.values():
            member.assignment = member.assignment or request.assignments.get(member.member_id, b"")
        from ottla.core.group.classic.group import ClassicState

        group.become(ClassicState.STABLE, turn.now_ms)
        membership._save(turn, group)
        for member in group.members.values():
            membership._answer_sync(turn, group, member, membership._assigned(group, member))

    patch.setattr(Membership, "_assign", assign)
    patch.setattr(Membership, "_drop_assignment", lambda membership, turn, group: None)


def failed_appends_are_taken_for_good(patch: pytest.MonkeyPatch) -> None:
    original = Coordinator._end

    def give_up(coordinator: Any, refused: Refused) -> None:
        if refused.error is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
            original(coordinator, refused)

    patch.setattr(Coordinator, "_end", give_up)


def waiting_requests_are_dropped(patch: pytest.MonkeyPatch) -> None:
    original = Coordinator._end

    def give_up(coordinator: Any, refused: Refused) -> None:
        coordinator._waiting.clear()
        original(coordinator, refused)

    patch.setattr(Coordinator, "_end", give_up)


def replays_begin_in_the_middle(patch: pytest.MonkeyPatch) -> None:
    original = machine_log._replay_batch

    def replay(machine: Any, codec: Any, header: Any, batch: Any) -> None:
        if header.base_offset % 7 != 3:
            original(machine, codec, header, batch)

    patch.setattr(machine_log, "_replay_batch", replay)


def timers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """After a replay nobody's session is watched."""

    def resume(membership: Membership, turn: Turn, group: ClassicGroup) -> None:
        membership.groups[group.group_id] = group

    patch.setattr(Membership, "resume", resume)


BUGS: tuple[Bug, ...] = (
    any_generation_commits,
    anybody_commits,
    commits_between_generations,
    groups_are_not_written,
    offsets_are_not_written,
    answered_before_durable,
    reads_overtake_writes,
    pending_members_are_forgotten,
    coordinators_outlive_leadership,
    sessions_never_end,
    rebalances_never_end,
    syncs_never_end,
    static_members_are_not_fenced,
    old_ids_of_static_members_stay_good,
    generations_stand_still,
    everybody_gets_the_leaders_share,
    anybody_assigns,
    old_assignments_are_kept,
    failed_appends_are_taken_for_good,
    waiting_requests_are_dropped,
    replays_begin_in_the_middle,
    timers_are_forgotten,
)
