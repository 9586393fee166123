"""LeaveGroup: one member in the oldest versions, several with an answer each in the others."""

from __future__ import annotations

import pytest
from tests.broker import group_requests as ask
from tests.broker.requests import every_version_of, session_with
from tests.broker.test_join_group import pair

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest

VERSIONS = every_version_of(LeaveGroupRequest)
BATCHED = [version for version in VERSIONS if version >= ask.LEAVE_BATCHED_SINCE]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_others_rebalance_at_once(
    broker: ottla.Broker, connection: RawConnection, group: str, version: int
) -> None:
    with session_with(broker) as other:
        leader, follower = pair(connection, other, group)
        answer = ask.leave(connection, group, (leader.member_id, None), version=version)
        assert answer.error_code == ErrorCode.NONE
        left = [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members]
        assert left == ([(leader.member_id, None, 0)] if version in BATCHED else [])
        assert ask.heartbeat(other, follower) is ErrorCode.REBALANCE_IN_PROGRESS
        answer = ask.join(other, group, follower.member_id)
        assert (answer.leader, answer.generation_id) == (follower.member_id, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_are_told_where_the_version_has_room_for_them(
    connection: RawConnection, group: str, version: int
) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    for _ in range(2):  # in a group that does not exist, and in one that does
        answer = ask.leave(connection, group, ("stranger", None), version=version)
        if version in BATCHED:
            assert answer.error_code == ErrorCode.NONE
            assert [member.error_code for member in answer.members] == [unknown]
        else:
            assert (answer.error_code, answer.members) == (unknown, [])
        ask.new_member_id(connection, group)
    answer = ask.leave(connection, "", ("stranger", None), version=version)
    assert (answer.error_code, answer.members) == (ErrorCode.INVALID_GROUP_ID, [])


@pytest.mark.parametrize("version", BATCHED)
def test_an_administrator_removes_several_at_once(
    connection: RawConnection, group: str, version: int
) -> None:
    member = ask.enter(connection, group, instance_id="instance")
    several = [
        ("", "other"),
        ("stranger", "instance"),
        ("", "instance"),
        (member.member_id, None),
    ]
    answer = ask.leave(connection, group, *several, version=version)
    assert answer.error_code == ErrorCode.NONE
    assert [(one.member_id, one.group_instance_id) for one in answer.members] == several
    assert [ErrorCode(one.error_code) for one in answer.members] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert ask.describe(connection, group).group_state == "Empty"


@pytest.mark.parametrize("version", BATCHED)
def test_nobody_can_be_asked_to_leave(connection: RawConnection, group: str, version: int) -> None:
    answer = ask.leave(connection, group, version=version)
    assert (answer.error_code, answer.members) == (ErrorCode.NONE, [])
