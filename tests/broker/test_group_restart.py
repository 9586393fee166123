"""Groups and offsets outlive the broker: after a clean stop and after kill -9."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests as ask
from tests.broker.conftest import Starter
from tests.broker.group_requests import Joined, Position
from tests.broker.processes import ServeProcess
from tests.broker.requests import create, session_with
from tests.broker.test_join_group import pair

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker


def use(connection: RawConnection, topic: str) -> Joined:
    """Offsets of a consumer without a group, and a stable group with a member and an offset."""
    create(connection, topic, 2)
    ask.await_coordinator(connection)
    for offset in range(50):
        assert ask.commit(connection, "simple", {(topic, 0): Position(offset, f"m{offset}")}) == [
            ErrorCode.NONE
        ]
    member = ask.enter(connection, "group", instance_id="instance", assignment=b"kept")
    ask.commit(connection, "group", {(topic, 1): Position(7, "seven", 3)}, member=member)
    return member


def check(connection: RawConnection, topic: str, member: Joined) -> None:
    """Everything is as it was, and goes on."""
    assert ask.committed(connection, "simple") == {(topic, 0): Position(49, "m49")}
    assert ask.committed(connection, "group") == {(topic, 1): Position(7, "seven", 3)}
    assert ask.heartbeat(connection, member) is ErrorCode.NONE
    found = ask.describe(connection, "group")
    assert (found.group_state, found.protocol_data) == ("Stable", "range")
    (described,) = found.members
    assert (described.member_id, described.group_instance_id) == (member.member_id, "instance")
    assert bytes(described.member_assignment) == b"kept"
    assert bytes(ask.sync(connection, member).assignment) == b"kept"
    assert ask.commit(connection, "group", {(topic, 1): 8}, member=member) == [ErrorCode.NONE]
    again: Any = ask.join(connection, "group", instance_id="instance")
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, member.generation)
    assert ask.heartbeat(connection, member) is ErrorCode.FENCED_INSTANCE_ID


def test_a_stop_changes_nothing(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        member = use(connection, topic)
    broker.stop()
    with session_with(start()) as connection:
        check(connection, topic, member)


def test_a_kill_changes_nothing(serve_process: ServeProcess, topic: str) -> None:
    serve_process.start("--set", "group.initial.rebalance.delay.ms=0")
    with RawConnection(serve_process.address) as connection:
        member = use(connection, topic)
    serve_process.kill()
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        check(connection, topic, member)


def test_two_members_go_on_in_their_generation(start: Starter) -> None:
    broker = start()
    with session_with(broker) as first, session_with(broker) as second:
        ask.await_coordinator(first)
        members = pair(first, second, "group")
    broker.stop()
    with session_with(start()) as connection:
        for member, assignment in zip(members, (b"leads", b"follows"), strict=True):
            assert ask.heartbeat(connection, member) is ErrorCode.NONE
            assert bytes(ask.sync(connection, member).assignment) == assignment
        # The follower has nothing new to say; the leader still leads.
        again = ask.join(connection, "group", members[1].member_id)
        assert (again.generation_id, again.leader) == (2, members[0].member_id)


def test_a_member_that_does_not_come_back_is_missed() -> None:
    with Broker() as broker:
        with session_with(broker) as connection:
            ask.await_coordinator(connection)
            member = ask.enter(connection, "group", session_timeout_ms=10_000)
        broker.restart()
        with session_with(broker) as connection:
            ask.await_state(connection, "group", "Stable")
            broker.clock.advance("11s")
            ask.await_state(connection, "group", "Empty")
            assert ask.heartbeat(connection, member) is ErrorCode.UNKNOWN_MEMBER_ID
            assert ask.enter(connection, "group").generation > member.generation


def test_a_generation_that_was_not_agreed_on_is_forgotten(start: Starter) -> None:
    """Only an assignment makes a generation durable: whoever had just joined has to join again."""
    broker = start()
    with session_with(broker) as connection:
        ask.await_coordinator(connection)
        answer = ask.join_fully(connection, "group")
    broker.stop()
    with session_with(start()) as connection:
        member = Joined("group", answer.member_id, answer.generation_id)
        assert ask.heartbeat(connection, member) is ErrorCode.UNKNOWN_MEMBER_ID
        assert ask.sync(connection, member).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("partitions", [1, 7])
def test_another_number_of_partitions_is_for_new_clusters_only(
    start: Starter, topic: str, partitions: int
) -> None:
    broker = start()
    with session_with(broker) as connection:
        member = use(connection, topic)
    broker.stop()
    with session_with(start(offsets_topic_num_partitions=partitions)) as connection:
        check(connection, topic, member)
