"""Requests of groups on connections: many at once, waiting, and gone before they are answered."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests.broker import group_requests as ask
from tests.broker.requests import (
    connection_count,
    create,
    eventually,
    held_loop,
    session_with,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_fetch import OffsetFetchResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

NEWEST_JOIN, NEWEST_SYNC = 9, 5


def test_pipelined_commits_and_fetches_are_answered_in_order(
    connection: RawConnection, group: str, topic: str
) -> None:
    create(connection, topic)
    fetch = ask.fetch_groups_request({group: {topic: [0]}})
    for offset in range(200):
        connection.send(ask.commit_request(group, {(topic, 0): offset}), 9)
        connection.send(fetch, 9)
    for offset in range(200):
        committed = connection.receive(OffsetCommitResponse, 9)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
        found = connection.receive(OffsetFetchResponse, 9).groups[0]
        assert found.topics[0].partitions[0].committed_offset == offset


def test_answers_behind_a_parked_request_wait_for_it(
    broker: ottla.Broker, connection: RawConnection, group: str
) -> None:
    member = ask.enter(connection, group)
    with session_with(broker) as other:
        new_id = ask.new_member_id(other, group)
        other.send(ask.join_request(group, new_id), NEWEST_JOIN)
        other.send(MetadataRequest(topics=[]), 9)
        ask.await_state(connection, group, "PreparingRebalance")
        other.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            other.receive_frame()
        other.socket.settimeout(10)
        assert ask.join(connection, group, member.member_id).generation_id == 2
        assert other.receive(JoinGroupResponse, NEWEST_JOIN).generation_id == 2
        assert other.receive(MetadataResponse, 9).topics == []


def test_members_of_many_groups_share_a_connection(connection: RawConnection, group: str) -> None:
    """Parked requests of different groups, sent together, are all answered."""
    names = [f"{group}-{number}" for number in range(50)]
    for name in names:
        connection.send(ask.join_request(name, instance_id="one"), NEWEST_JOIN)
    members = []
    for name in names:
        answer = connection.receive(JoinGroupResponse, NEWEST_JOIN)
        assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
        members.append(ask.Joined(name, answer.member_id, 1, "one"))
    for member in members:
        connection.send(ask.sync_request(member, {member.member_id: member.group.encode()}), 5)
    for member in members:
        answer = connection.receive(SyncGroupResponse, NEWEST_SYNC)
        assert bytes(answer.assignment) == member.group.encode()


def test_a_parked_member_that_disconnects_does_not_hold_the_others_up() -> None:
    """It has joined, so it is part of the generation; its session ends, and the others go on."""
    with ottla.Broker(group_min_session_timeout_ms=100) as broker, session_with(broker) as one:
        ask.await_coordinator(one)
        member = ask.enter(one, "group")
        before = connection_count(broker)
        with session_with(broker) as other:
            new_id = ask.new_member_id(other, "group")
            other.send(ask.join_request("group", new_id, session_timeout_ms=300), NEWEST_JOIN)
            ask.await_state(one, "group", "PreparingRebalance")
        assert eventually(lambda: connection_count(broker) == before)
        led = ask.join(one, "group", member.member_id)
        assert {found.member_id for found in led.members} == {member.member_id, new_id}
        member = member._replace(generation=led.generation_id)
        ask.sync(one, member, {member.member_id: b"1", new_id: b"2"})

        def must_rejoin() -> bool:
            return ask.heartbeat(one, member) is ErrorCode.REBALANCE_IN_PROGRESS

        assert eventually(must_rejoin)
        alone = ask.join(one, "group", member.member_id)
        assert [found.member_id for found in alone.members] == [member.member_id]


def test_a_parked_sync_that_disconnects_is_answered_to_who_asks_again(
    broker: ottla.Broker, connection: RawConnection, group: str
) -> None:
    member = ask.enter(connection, group)
    with session_with(broker) as other:
        new_id = ask.new_member_id(other, group)
        other.send(ask.join_request(group, new_id), NEWEST_JOIN)
        ask.await_state(connection, group, "PreparingRebalance")
        led = ask.join(connection, group, member.member_id)
        follower = ask.Joined(group, new_id, led.generation_id)
        other.send(ask.sync_request(follower), NEWEST_SYNC)
    with session_with(broker) as again:
        again.send(ask.sync_request(follower), NEWEST_SYNC)
        heartbeat = HeartbeatRequest(
            group_id=group, generation_id=led.generation_id, member_id=new_id
        )
        again.send(heartbeat, 4)
        leader = member._replace(generation=led.generation_id)
        ask.sync(connection, leader, {new_id: b"follows"})
        assert bytes(again.receive(SyncGroupResponse, NEWEST_SYNC).assignment) == b"follows"
        assert again.receive(HeartbeatResponse, 4).error_code == ErrorCode.NONE


def test_a_commit_behind_a_waiting_sync_is_accepted(
    broker: ottla.Broker, connection: RawConnection, group: str, topic: str
) -> None:
    """A client that closes then has nothing else to say: refused, its last offsets would be lost (ADR 0032)."""
    create(connection, topic)
    member = ask.enter(connection, group)
    with session_with(broker) as other:
        new_id = ask.new_member_id(other, group)
        other.send(ask.join_request(group, new_id), NEWEST_JOIN)
        ask.await_state(connection, group, "PreparingRebalance")
        led = ask.join(connection, group, member.member_id)
        other.receive(JoinGroupResponse, NEWEST_JOIN)
        follower = ask.Joined(group, new_id, led.generation_id)
        with held_loop(broker):
            other.send(ask.sync_request(follower), NEWEST_SYNC)
            other.send(ask.commit_request(group, {(topic, 0): 7}, member=follower), 9)
        # The answer waits behind the other one, but the offset is there.
        assert eventually(lambda: (topic, 0) in ask.committed(connection, group))
        ask.leave(connection, group, (member.member_id, None))
        synced = other.receive(SyncGroupResponse, NEWEST_SYNC)
        assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        committed = other.receive(OffsetCommitResponse, 9)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_fifty_members_that_come_together_are_one_generation() -> None:
    with ottla.Broker(group_initial_rebalance_delay_ms=500) as broker, ExitStack() as stack:
        connections = [stack.enter_context(session_with(broker)) for _ in range(50)]
        ask.await_coordinator(connections[0])
        with held_loop(broker):
            for number, each in enumerate(connections):
                each.send(ask.join_request("group", instance_id=f"i{number}"), NEWEST_JOIN)
        answers = [each.receive(JoinGroupResponse, NEWEST_JOIN) for each in connections]
        assert {(one.error_code, one.generation_id) for one in answers} == {(ErrorCode.NONE, 1)}
        (leader,) = {one.leader for one in answers}
        ids = [one.member_id for one in answers]
        told = [[member.member_id for member in one.members] for one in answers]
        assert told == [ids if member_id == leader else [] for member_id in ids]
