"""JoinGroup and SyncGroup: what is refused, and what looks as if it should be."""

from __future__ import annotations

from typing import Any

from tests.broker import group_requests as ask
from tests.broker.group_errors.stage import (
    FIRST_SYNC_WITH_INSTANCE,
    INT_MAX,
    INT_MIN,
    LONGEST,
    MAX_SESSION_TIMEOUT_MS,
    MIN_SESSION_TIMEOUT_MS,
    Act,
    Situation,
    Stage,
    in_long_group,
    since,
    without_group,
)
from tests.broker.group_requests import Joined

from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest


def _with_timeout(session_timeout_ms: int) -> Act:
    return lambda stage, version: stage.join(version, session_timeout_ms=session_timeout_ms)


def _with_rebalance_timeout(rebalance_timeout_ms: int) -> Act:
    return lambda stage, version: stage.join_fully(
        version, rebalance_timeout_ms=rebalance_timeout_ms
    )


def _second_joins(stage: Stage, version: int, **details: Any) -> ErrorCode:
    """Somebody else comes to a group that has a member."""
    stage.stable()
    return stage.join(version, **details)


def _with_the_longest_client_id(stage: Stage, version: int) -> ErrorCode:
    stage.connection.send(ask.join_request(stage.group), version, LONGEST)
    return ErrorCode(stage.connection.receive(JoinGroupResponse, version).error_code)


def _fenced_join(stage: Stage, version: int) -> ErrorCode:
    member = stage.fenced()
    return stage.join(version, member.member_id, instance_id=member.instance_id)


def _join_with_a_strange_instance(stage: Stage, version: int) -> ErrorCode:
    member = stage.stable(instance_id="instance")
    return stage.join(version, member.member_id, instance_id="other")


ID_DOES_NOT_FIT = "a member id is made of this name, which is cut here so that the id fits"
JOINING = [
    Situation(
        JoinGroupRequest,
        "no group id",
        "INVALID_GROUP_ID",
        lambda stage, version: without_group(stage).join(version),
    ),
    Situation(
        JoinGroupRequest,
        "the longest group id",
        "NONE",
        lambda stage, version: in_long_group(stage).join_fully(version),
    ),
    Situation(
        JoinGroupRequest,
        "a new member that does not know its id yet",
        "MEMBER_ID_REQUIRED",
        lambda stage, version: stage.join(version),
        since(JoinGroupRequest, 4),
    ),
    Situation(
        JoinGroupRequest,
        "a new member before ids were handed out first",
        "NONE",
        lambda stage, version: stage.join(version),
        (0, 1, 2, 3),
    ),
    Situation(
        JoinGroupRequest,
        "a member id in a group that does not exist",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.join(version, "stranger"),
    ),
    Situation(
        JoinGroupRequest,
        "a member id that the group does not know",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: _second_joins(stage, version, member_id="stranger"),
    ),
    Situation(
        JoinGroupRequest,
        "the longest member id",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: _second_joins(stage, version, member_id=LONGEST),
    ),
    Situation(
        JoinGroupRequest,
        "a member whose session is over",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.join(version, stage.expired().member_id),
    ),
    *(
        Situation(
            JoinGroupRequest,
            f"a session timeout of {timeout_ms} ms",
            "INVALID_SESSION_TIMEOUT",
            _with_timeout(timeout_ms),
        )
        for timeout_ms in (
            *(INT_MIN, -1, 0, MIN_SESSION_TIMEOUT_MS - 1),
            *(MAX_SESSION_TIMEOUT_MS + 1, INT_MAX),
        )
    ),
    Situation(
        JoinGroupRequest,
        "the longest session timeout",
        "NONE",
        lambda stage, version: stage.join_fully(version, session_timeout_ms=MAX_SESSION_TIMEOUT_MS),
    ),
    *(
        Situation(
            JoinGroupRequest,
            f"a rebalance timeout of {timeout_ms} ms",
            "NONE",
            _with_rebalance_timeout(timeout_ms),
        )
        for timeout_ms in (INT_MIN, -1, 0, INT_MAX)
    ),
    Situation(
        JoinGroupRequest,
        "no protocol type",
        "INCONSISTENT_GROUP_PROTOCOL",
        lambda stage, version: stage.join(version, protocol_type=""),
    ),
    Situation(
        JoinGroupRequest,
        "no protocols",
        "INCONSISTENT_GROUP_PROTOCOL",
        lambda stage, version: stage.join(version, protocols=()),
    ),
    Situation(
        JoinGroupRequest,
        "a protocol without a name",
        "NONE",
        lambda stage, version: stage.join_fully(version, protocols={"": b""}),
    ),
    Situation(
        JoinGroupRequest,
        "another protocol type than the group's",
        "INCONSISTENT_GROUP_PROTOCOL",
        lambda stage, version: _second_joins(stage, version, protocol_type="connect"),
    ),
    Situation(
        JoinGroupRequest,
        "no protocol in common with the group",
        "INCONSISTENT_GROUP_PROTOCOL",
        lambda stage, version: _second_joins(stage, version, protocols={"sticky": b""}),
    ),
    Situation(
        JoinGroupRequest,
        "no protocols in a group that has members",
        "INCONSISTENT_GROUP_PROTOCOL",
        lambda stage, version: _second_joins(stage, version, protocols=()),
    ),
    Situation(
        JoinGroupRequest,
        "the longest client id",
        "MEMBER_ID_REQUIRED",
        _with_the_longest_client_id,
        since(JoinGroupRequest, 4),
        kafka="UNKNOWN_SERVER_ERROR",
        why=ID_DOES_NOT_FIT,
    ),
    Situation(
        JoinGroupRequest,
        "the longest client id before ids were handed out first",
        "NONE",
        _with_the_longest_client_id,
        (0, 1, 2, 3),
        kafka="UNKNOWN_SERVER_ERROR",
        why=ID_DOES_NOT_FIT,
    ),
    Situation(
        JoinGroupRequest,
        "the longest instance id",
        "NONE",
        lambda stage, version: stage.join(version, instance_id=LONGEST),
        since(JoinGroupRequest, 5),
        kafka="UNKNOWN_SERVER_ERROR",
        why=ID_DOES_NOT_FIT,
    ),
    Situation(
        JoinGroupRequest,
        "a static member whose place is taken",
        "FENCED_INSTANCE_ID",
        _fenced_join,
        since(JoinGroupRequest, 5),
    ),
    Situation(
        JoinGroupRequest,
        "an instance id that the group does not know, with a member id",
        "UNKNOWN_MEMBER_ID",
        _join_with_a_strange_instance,
        since(JoinGroupRequest, 5),
    ),
    Situation(
        JoinGroupRequest,
        "an empty instance id",
        "NONE",
        lambda stage, version: stage.join(version, instance_id=""),
        since(JoinGroupRequest, 5),
    ),
]


def _sync_a_fenced(stage: Stage, version: int) -> ErrorCode:
    return stage.sync(version, stage.fenced())


def _sync_with(**details: str | None) -> Act:
    return lambda stage, version: stage.sync(version, stage.completing(), **details)


def _assign(*assignments: tuple[str, bytes]) -> Act:
    return lambda stage, version: stage.sync(version, stage.completing(), *assignments)


def _assign_twice(stage: Stage, version: int) -> ErrorCode:
    member = stage.completing()
    return stage.sync(version, member, (member.member_id, b"1"), (member.member_id, b"2"))


def _assign_much(stage: Stage, version: int) -> ErrorCode:
    member = stage.completing()
    return stage.sync(version, member, (member.member_id, b"x" * 2_000_000))


SYNCING = [
    Situation(
        SyncGroupRequest,
        "no group id",
        "INVALID_GROUP_ID",
        lambda stage, version: stage.sync(version, Joined("", "stranger", 1)),
    ),
    Situation(
        SyncGroupRequest,
        "a group that does not exist",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.sync(version, stage.stranger()),
    ),
    Situation(
        SyncGroupRequest,
        "the longest group and member ids",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.sync(version, Joined(LONGEST, LONGEST, 1)),
    ),
    Situation(
        SyncGroupRequest,
        "a group that everybody has left",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.sync(version, stage.left()),
    ),
    Situation(
        SyncGroupRequest,
        "not a member",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.sync(
            version, stage.completing()._replace(member_id="stranger")
        ),
    ),
    Situation(
        SyncGroupRequest,
        "a member whose session is over",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.sync(version, stage.expired()),
    ),
    *(
        Situation(
            SyncGroupRequest,
            f"generation {generation}",
            "ILLEGAL_GENERATION",
            lambda stage, version, generation=generation: stage.sync(  # type: ignore[misc]
                version, stage.completing()._replace(generation=generation)
            ),
        )
        for generation in (INT_MIN, -1, 0, 2, INT_MAX)
    ),
    Situation(
        SyncGroupRequest,
        "a group that rebalances",
        "REBALANCE_IN_PROGRESS",
        lambda stage, version: stage.sync(version, stage.preparing()),
    ),
    Situation(
        SyncGroupRequest,
        "no protocol type",
        "INCONSISTENT_GROUP_PROTOCOL",
        _sync_with(protocol_type=None),
        (5,),
    ),
    Situation(
        SyncGroupRequest,
        "no protocol",
        "INCONSISTENT_GROUP_PROTOCOL",
        _sync_with(protocol=None),
        (5,),
    ),
    Situation(
        SyncGroupRequest,
        "another protocol type than the group's",
        "INCONSISTENT_GROUP_PROTOCOL",
        _sync_with(protocol_type="connect"),
        (5,),
    ),
    Situation(
        SyncGroupRequest,
        "another protocol than the group's",
        "INCONSISTENT_GROUP_PROTOCOL",
        _sync_with(protocol="sticky"),
        (5,),
    ),
    Situation(
        SyncGroupRequest,
        "a static member whose place is taken",
        "FENCED_INSTANCE_ID",
        _sync_a_fenced,
        since(SyncGroupRequest, FIRST_SYNC_WITH_INSTANCE),
    ),
    Situation(
        SyncGroupRequest,
        "an instance id that the group does not know",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.sync(version, stage.stable()._replace(instance_id="other")),
        since(SyncGroupRequest, FIRST_SYNC_WITH_INSTANCE),
    ),
    Situation(SyncGroupRequest, "a leader that assigns nothing", "NONE", _assign()),
    Situation(
        SyncGroupRequest,
        "a leader that assigns to strangers",
        "NONE",
        _assign(("stranger", b"1"), ("", b"2"), (LONGEST, b"3")),
    ),
    Situation(SyncGroupRequest, "a leader that assigns twice", "NONE", _assign_twice),
    Situation(
        SyncGroupRequest,
        "an assignment larger than a record may be",
        "NONE",
        _assign_much,
        kafka="UNKNOWN_SERVER_ERROR",
        why="max.message.bytes is a limit for producers; a group of many members may be larger",
    ),
]
