"""Heartbeat: a member stays as long as it is heard of, at every version."""

from __future__ import annotations

import pytest
from tests.broker import group_requests as ask
from tests.broker.requests import every_version_of, session_with

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.wire.messages.heartbeat import HeartbeatRequest

VERSIONS = every_version_of(HeartbeatRequest)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_is_told_when_to_join_again(
    broker: ottla.Broker, connection: RawConnection, group: str, version: int
) -> None:
    member = ask.enter(connection, group)
    assert ask.heartbeat(connection, member, version=version) is ErrorCode.NONE
    with session_with(broker) as other:
        new_id = ask.new_member_id(other, group)
        # An id that was only given out disturbs nobody.
        assert ask.heartbeat(connection, member, version=version) is ErrorCode.NONE
        other.send(ask.join_request(group, new_id), 9)
        ask.await_state(connection, group, "PreparingRebalance")
        error = ask.heartbeat(connection, member, version=version)
        assert error is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_session_open_and_nothing_else_does() -> None:
    with Broker() as broker, session_with(broker) as one:
        broker.clock.freeze()
        ask.await_coordinator(one)
        quiet = ask.enter(one, "quiet", session_timeout_ms=10_000)
        alive = ask.enter(one, "alive", session_timeout_ms=10_000)
        for _ in range(3):
            assert ask.describe(one, "quiet").group_state == "Stable"
            broker.clock.advance("4s")
            assert ask.heartbeat(one, alive) is ErrorCode.NONE
        ask.await_state(one, "quiet", "Empty")
        assert ask.heartbeat(one, quiet) is ErrorCode.UNKNOWN_MEMBER_ID
        assert ask.heartbeat(one, alive) is ErrorCode.NONE


def test_a_commit_is_a_sign_of_life(topic: str) -> None:
    with Broker() as broker, session_with(broker) as one:
        broker.clock.freeze()
        ask.await_coordinator(one)
        member = ask.enter(one, "g", session_timeout_ms=10_000)
        for _ in range(3):
            broker.clock.advance("9s")
            errors = ask.commit(one, "g", {("__consumer_offsets", 0): 1}, member=member)
            assert errors == [ErrorCode.NONE]
        assert ask.heartbeat(one, member) is ErrorCode.NONE
