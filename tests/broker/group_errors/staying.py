"""Heartbeat and LeaveGroup: what is refused, and what looks as if it should be."""

from __future__ import annotations

from tests.broker import group_requests as ask
from tests.broker.group_errors.stage import (
    FIRST_HEARTBEAT_WITH_INSTANCE,
    INT_MAX,
    INT_MIN,
    LONGEST,
    Act,
    Situation,
    Stage,
    after,
    since,
    without_group,
)
from tests.broker.group_requests import Joined

from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest

STAYING = [
    Situation(
        HeartbeatRequest,
        "no group id",
        "INVALID_GROUP_ID",
        lambda stage, version: stage.heartbeat(version, Joined("", "stranger", 1)),
    ),
    Situation(
        HeartbeatRequest,
        "a group that does not exist",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.heartbeat(version, stage.stranger()),
    ),
    Situation(
        HeartbeatRequest,
        "the longest group and member ids",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.heartbeat(version, Joined(LONGEST, LONGEST, 1)),
    ),
    Situation(
        HeartbeatRequest,
        "not a member",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.heartbeat(
            version, stage.stable()._replace(member_id="stranger")
        ),
    ),
    Situation(
        HeartbeatRequest,
        "a member whose session is over",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.heartbeat(version, stage.expired()),
    ),
    Situation(
        HeartbeatRequest,
        "a member that has left",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.heartbeat(version, stage.left()),
    ),
    *(
        Situation(
            HeartbeatRequest,
            f"generation {generation}",
            "ILLEGAL_GENERATION",
            lambda stage, version, generation=generation: stage.heartbeat(  # type: ignore[misc]
                version, stage.stable()._replace(generation=generation)
            ),
        )
        for generation in (INT_MIN, -1, 0, 2, INT_MAX)
    ),
    Situation(
        HeartbeatRequest,
        "a group that rebalances",
        "REBALANCE_IN_PROGRESS",
        lambda stage, version: stage.heartbeat(version, stage.preparing()),
    ),
    Situation(
        HeartbeatRequest,
        "a group that waits for its assignment",
        "NONE",
        lambda stage, version: stage.heartbeat(version, stage.completing()),
    ),
    Situation(
        HeartbeatRequest,
        "a static member whose place is taken",
        "FENCED_INSTANCE_ID",
        lambda stage, version: stage.heartbeat(version, stage.fenced()),
        since(HeartbeatRequest, FIRST_HEARTBEAT_WITH_INSTANCE),
    ),
    Situation(
        HeartbeatRequest,
        "a member id whose place is taken, before instance ids",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.heartbeat(version, stage.fenced()),
        (0, 1, 2),
    ),
    Situation(
        HeartbeatRequest,
        "an instance id that the group does not know",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.heartbeat(
            version, stage.stable()._replace(instance_id="other")
        ),
        since(HeartbeatRequest, FIRST_HEARTBEAT_WITH_INSTANCE),
    ),
]


def _leave_twice(stage: Stage, version: int) -> ErrorCode:
    member = stage.stable()
    return stage.leave(version, (member.member_id, None), (member.member_id, None))


def _leave_before_coming(stage: Stage, version: int) -> ErrorCode:
    member_id = ask.new_member_id(stage.connection, stage.group)
    return stage.leave(version, (member_id, None))


def _remove(instance_id: str, member_id: str = "") -> Act:
    def act(stage: Stage, version: int) -> ErrorCode:
        stage.stable(instance_id="instance")
        return stage.leave(version, (member_id, instance_id))

    return act


def _leave_as_fenced(stage: Stage, version: int) -> ErrorCode:
    member = stage.fenced()
    return stage.leave(version, (member.member_id, member.instance_id))


BATCHED_LEAVE = since(LeaveGroupRequest, ask.LEAVE_BATCHED_SINCE)
LEAVING = [
    Situation(
        LeaveGroupRequest,
        "no group id",
        "INVALID_GROUP_ID",
        lambda stage, version: without_group(stage).leave(version, ("stranger", None)),
    ),
    Situation(
        LeaveGroupRequest,
        "a group that does not exist",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.leave(version, ("stranger", None)),
    ),
    Situation(
        LeaveGroupRequest,
        "not a member",
        "UNKNOWN_MEMBER_ID",
        after(Stage.stable, lambda stage, version: stage.leave(version, ("stranger", None))),
    ),
    Situation(
        LeaveGroupRequest,
        "the longest member id",
        "UNKNOWN_MEMBER_ID",
        after(Stage.stable, lambda stage, version: stage.leave(version, (LONGEST, None))),
    ),
    Situation(
        LeaveGroupRequest,
        "no member id",
        "UNKNOWN_MEMBER_ID",
        after(Stage.stable, lambda stage, version: stage.leave(version, ("", None))),
    ),
    Situation(
        LeaveGroupRequest,
        "a member whose session is over",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.leave(version, (stage.expired().member_id, None)),
    ),
    Situation(
        LeaveGroupRequest,
        "somebody who was given an id and has not joined with it",
        "NONE",
        _leave_before_coming,
    ),
    Situation(
        LeaveGroupRequest,
        "the same member twice",
        "UNKNOWN_MEMBER_ID",
        _leave_twice,
        BATCHED_LEAVE,
    ),
    Situation(
        LeaveGroupRequest,
        "a static member whose place is taken",
        "FENCED_INSTANCE_ID",
        _leave_as_fenced,
        BATCHED_LEAVE,
    ),
    Situation(
        LeaveGroupRequest,
        "an instance id that the group does not know",
        "UNKNOWN_MEMBER_ID",
        _remove("other"),
        BATCHED_LEAVE,
    ),
    Situation(
        LeaveGroupRequest,
        "an instance id with a member id that is not its own",
        "FENCED_INSTANCE_ID",
        _remove("instance", "stranger"),
        BATCHED_LEAVE,
    ),
    Situation(
        LeaveGroupRequest,
        "an instance id without a member id",
        "NONE",
        _remove("instance"),
        BATCHED_LEAVE,
    ),
]
