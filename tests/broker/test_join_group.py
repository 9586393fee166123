"""JoinGroup: what members are told, at every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests as ask
from tests.broker.group_requests import Joined
from tests.broker.requests import every_version_of, session_with

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

VERSIONS = every_version_of(JoinGroupRequest)
HANDSHAKE_SINCE, STATIC_SINCE, NULL_PROTOCOL_SINCE, SKIPPING_SINCE = 4, 5, 7, 9


def seen(answer: Any) -> tuple[Any, ...]:
    """Everything but the members."""
    return (
        ErrorCode(answer.error_code),
        answer.generation_id,
        answer.protocol_type,
        answer.protocol_name,
        answer.leader,
        answer.skip_assignment,
        answer.member_id,
    )


def members(answer: Any) -> list[tuple[str, str | None, bytes]]:
    return [(one.member_id, one.group_instance_id, bytes(one.metadata)) for one in answer.members]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_member_leads_a_group_of_its_own(
    connection: RawConnection, group: str, version: int
) -> None:
    answer = ask.join(connection, group, version=version)
    name = "ottla-raw-"
    if version >= HANDSHAKE_SINCE:
        no_protocol = None if version >= NULL_PROTOCOL_SINCE else ""
        error = ErrorCode.MEMBER_ID_REQUIRED
        assert seen(answer) == (error, -1, None, no_protocol, "", False, answer.member_id)
        assert answer.member_id.startswith(name)
        assert answer.members == []
        given = answer.member_id
        answer = ask.join(connection, group, given, version=version)
        assert answer.member_id == given
    protocol_type = ask.CONSUMER if version >= NULL_PROTOCOL_SINCE else None
    me = answer.member_id
    assert me.startswith(name)
    assert seen(answer) == (ErrorCode.NONE, 1, protocol_type, ask.PROTOCOL, me, False, me)
    assert members(answer) == [(me, None, ask.SUBSCRIPTION)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_has_the_member_id_and_no_generation(
    connection: RawConnection, group: str, version: int
) -> None:
    answer = ask.join(connection, group, "stranger", version=version)
    no_protocol = None if version >= NULL_PROTOCOL_SINCE else ""
    error = ErrorCode.UNKNOWN_MEMBER_ID
    assert seen(answer) == (error, -1, None, no_protocol, "", False, "stranger")
    assert answer.members == []


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_leader_is_told_the_members(
    broker: ottla.Broker, connection: RawConnection, group: str, version: int
) -> None:
    leader = ask.enter(connection, group, protocols={"range": b"1", "sticky": b"2"})
    with session_with(broker) as other:
        new_id = ask.new_member_id(other, group, version=version)
        both = {"sticky": b"3", "range": b"4"}
        other.send(ask.join_request(group, new_id, protocols=both), version)
        ask.await_state(connection, group, "PreparingRebalance")
        assert ask.heartbeat(connection, leader) is ErrorCode.REBALANCE_IN_PROGRESS
        again = {"range": b"1", "sticky": b"2"}
        led = ask.join(connection, group, leader.member_id, protocols=again, version=version)
        followed = other.receive(JoinGroupResponse, version)
    assert followed.members == []
    assert (led.leader, followed.leader) == (leader.member_id, leader.member_id)
    assert (led.generation_id, followed.generation_id) == (2, 2)
    # One vote each: the one that came first decides.
    assert (led.protocol_name, followed.protocol_name) == ("range", "range")
    expected = [(leader.member_id, None, b"1"), (followed.member_id, None, b"4")]
    assert members(led) == expected


@pytest.mark.parametrize("version", range(STATIC_SINCE, VERSIONS[-1] + 1))
def test_a_static_member_comes_back_without_a_rebalance(
    connection: RawConnection, group: str, version: int
) -> None:
    first = ask.enter(connection, group, instance_id="instance", version=version)
    again = ask.join(connection, group, instance_id="instance", version=version)
    assert again.error_code == ErrorCode.NONE
    assert again.member_id.startswith("instance-")
    assert again.member_id != first.member_id
    assert again.generation_id == first.generation
    if version >= SKIPPING_SINCE:
        assert (again.leader, again.skip_assignment) == (again.member_id, True)
        assert members(again) == [(again.member_id, "instance", ask.SUBSCRIPTION)]
    else:
        # Told that somebody else leads, it does not assign anew.
        assert (again.leader, again.members) == (first.member_id, [])
    now = Joined(group, again.member_id, again.generation_id, "instance")
    assert bytes(ask.sync(connection, now).assignment) == b"mine"
    assert ask.heartbeat(connection, now) is ErrorCode.NONE
    assert ask.heartbeat(connection, first) is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", VERSIONS)
def test_a_follower_that_has_nothing_new_gets_the_generation_again(
    broker: ottla.Broker, connection: RawConnection, group: str, version: int
) -> None:
    with session_with(broker) as other:
        leader, follower = pair(connection, other, group)
        again = ask.join(other, group, follower.member_id, version=version)
        assert (again.error_code, again.generation_id) == (ErrorCode.NONE, follower.generation)
        assert (again.leader, again.members) == (leader.member_id, [])
        assert ask.heartbeat(connection, leader) is ErrorCode.NONE


def pair(first: RawConnection, second: RawConnection, group: str) -> tuple[Joined, Joined]:
    """A stable group of two."""
    leader = ask.enter(first, group)
    new_id = ask.new_member_id(second, group)
    second.send(ask.join_request(group, new_id), 9)
    ask.await_state(first, group, "PreparingRebalance")
    led = ask.join(first, group, leader.member_id)
    follower = Joined(group, new_id, led.generation_id)
    assert second.receive(JoinGroupResponse, 9).generation_id == led.generation_id
    leader = leader._replace(generation=led.generation_id)
    second.send(ask.sync_request(follower), 5)
    assigned = {leader.member_id: b"leads", new_id: b"follows"}
    assert bytes(ask.sync(first, leader, assigned).assignment) == b"leads"
    assert bytes(second.receive(SyncGroupResponse, 5).assignment) == b"follows"
    return leader, follower


@pytest.mark.parametrize("version", VERSIONS)
def test_of_two_protocols_of_the_same_name_the_first_counts(
    connection: RawConnection, group: str, version: int
) -> None:
    # Kafka counts two supporters of the protocol where there is one member, and never answers.
    twice = (("range", b"first"), ("range", b"second"))
    answer = ask.join_fully(connection, group, protocols=twice, version=version)
    assert answer.error_code == ErrorCode.NONE
    assert members(answer) == [(answer.member_id, None, b"first")]


def test_without_a_rebalance_timeout_the_session_timeout_counts() -> None:
    """Version 0 has none (KIP-62): a member that does not join again is dropped when its session would end."""
    with Broker() as broker, session_with(broker) as first:
        broker.clock.freeze()
        ask.await_coordinator(first)
        leader = ask.join(first, "g", session_timeout_ms=10_000, version=0)
        member = Joined("g", leader.member_id, leader.generation_id)
        ask.sync(first, member)
        with session_with(broker) as second:
            second.send(ask.join_request("g", session_timeout_ms=10_000), 0)
            ask.await_state(first, "g", "PreparingRebalance")
            # It goes on heartbeating, so that not its session ends but the time to join.
            broker.clock.advance("6s")
            assert ask.heartbeat(first, member) is ErrorCode.REBALANCE_IN_PROGRESS
            broker.clock.advance("6s")
            assert ask.heartbeat(first, member) is ErrorCode.UNKNOWN_MEMBER_ID
            assert second.receive(JoinGroupResponse, 0).generation_id == 2


def test_a_member_that_asks_again_is_answered_where_it_asked_last(
    broker: ottla.Broker, connection: RawConnection, group: str
) -> None:
    member = ask.enter(connection, group)
    with session_with(broker) as other, session_with(broker) as first, session_with(broker) as last:
        # Somebody who was given an id and does not come back holds the rebalance up. Kafka forgets the first request.
        new_id = ask.new_member_id(other, group)
        first.send(ask.join_request(group, member.member_id), 9)
        ask.await_state(connection, group, "PreparingRebalance")
        last.send(ask.join_request(group, member.member_id), 9)
        given_up = first.receive(JoinGroupResponse, 9)
        assert given_up.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert ask.leave_errors(connection, group, (new_id, None)) == [ErrorCode.NONE]
        assert last.receive(JoinGroupResponse, 9).generation_id == 2
