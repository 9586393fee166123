"""SyncGroup: assignments reach their members, at every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests as ask
from tests.broker.group_requests import Joined
from tests.broker.requests import every_version_of, session_with
from tests.broker.test_join_group import pair

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

VERSIONS = every_version_of(SyncGroupRequest)
PROTOCOL_SINCE = 5


def seen(answer: Any) -> tuple[Any, ...]:
    protocol = (answer.protocol_type, answer.protocol_name)
    return ErrorCode(answer.error_code), *protocol, bytes(answer.assignment)


def assigned(version: int, assignment: bytes) -> tuple[Any, ...]:
    protocol = (ask.CONSUMER, ask.PROTOCOL) if version >= PROTOCOL_SINCE else (None, None)
    return ErrorCode.NONE, *protocol, assignment


def join(connection: RawConnection, group: str) -> Joined:
    answer = ask.join_fully(connection, group)
    return Joined(group, answer.member_id, answer.generation_id)


@pytest.mark.parametrize("version", VERSIONS)
def test_everybody_gets_what_the_leader_assigned(
    broker: ottla.Broker, connection: RawConnection, group: str, version: int
) -> None:
    with session_with(broker) as other:
        leader, follower = pair(connection, other, group)
        # Another generation, in which the version in question is spoken.
        other.send(ask.join_request(group, follower.member_id, protocols={"range": b"new"}), 9)
        ask.await_state(connection, group, "PreparingRebalance")
        led = ask.join(connection, group, leader.member_id)
        other.receive(JoinGroupResponse, 9)
        leader = leader._replace(generation=led.generation_id)
        follower = follower._replace(generation=led.generation_id)
        other.send(ask.sync_request(follower), version)
        given = {leader.member_id: b"1", follower.member_id: b"2", "stranger": b"3"}
        assert seen(ask.sync(connection, leader, given, version=version)) == assigned(version, b"1")
        assert seen(other.receive(SyncGroupResponse, version)) == assigned(version, b"2")
        # Who asks again, or too late, gets the same.
        assert seen(ask.sync(other, follower, version=version)) == assigned(version, b"2")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_without_an_assignment_gets_no_bytes(
    connection: RawConnection, group: str, version: int
) -> None:
    member = join(connection, group)
    answer = ask.sync(connection, member, {"stranger": b"1"}, version=version)
    assert seen(answer) == assigned(version, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_of_two_assignments_the_last_counts(
    connection: RawConnection, group: str, version: int
) -> None:
    member = join(connection, group)
    twice = [(member.member_id, b"first"), (member.member_id, b"last")]
    answer = ask.sync(connection, member, twice, version=version)
    assert seen(answer) == assigned(version, b"last")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_has_nothing_else(connection: RawConnection, group: str, version: int) -> None:
    member = join(connection, group)._replace(generation=7)
    answer = ask.sync(connection, member, version=version)
    assert seen(answer) == (ErrorCode.ILLEGAL_GENERATION, None, None, b"")


def test_whoever_waits_for_an_assignment_that_will_not_come_is_told(
    broker: ottla.Broker, connection: RawConnection, group: str
) -> None:
    with session_with(broker) as other:
        leader, follower = pair(connection, other, group)
        other.send(ask.join_request(group, follower.member_id, protocols={"range": b"new"}), 9)
        ask.await_state(connection, group, "PreparingRebalance")
        led = ask.join(connection, group, leader.member_id)
        other.receive(JoinGroupResponse, 9)
        other.send(ask.sync_request(follower._replace(generation=led.generation_id)), 5)
        # The leader goes instead of assigning.
        gone = ask.leave_errors(connection, group, (leader.member_id, None))
        assert gone == [ErrorCode.NONE]
        answer = other.receive(SyncGroupResponse, 5)
        assert seen(answer) == (ErrorCode.REBALANCE_IN_PROGRESS, None, None, b"")
        assert ask.join(other, group, follower.member_id).leader == follower.member_id
