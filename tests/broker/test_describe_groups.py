"""DescribeGroups: a group in each of its states, at every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests as ask
from tests.broker.group_requests import Joined
from tests.broker.requests import create, every_version_of, session_with

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

VERSIONS = every_version_of(DescribeGroupsRequest)
INSTANCE_SINCE, NOT_FOUND_SINCE = 4, 6
OMITTED = -(1 << 31)
Row = tuple[str, str, str]
ME = ("ottla-raw", "/127.0.0.1")


def row(found: Any) -> Row:
    assert found.error_code == ErrorCode.NONE
    assert (found.error_message, found.authorized_operations) == (None, OMITTED)
    return found.group_state, found.protocol_type, found.protocol_data


def members(found: Any) -> list[tuple[Any, ...]]:
    return [
        (
            *(one.member_id, one.group_instance_id, one.client_id, one.client_host),
            *(bytes(one.member_metadata), bytes(one.member_assignment)),
        )
        for one in found.members
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_state_of_a_group(
    broker: ottla.Broker, connection: RawConnection, group: str, topic: str, version: int
) -> None:
    def look() -> tuple[Row, list[tuple[Any, ...]]]:
        found = ask.describe(connection, group, version=version)
        return row(found), members(found)

    create(connection, topic)
    ask.commit(connection, group, {(topic, 0): 1})
    assert look() == (("Empty", "", ""), [])
    joined = ask.join_fully(connection, group)
    me = joined.member_id
    # The protocol and what members say of it are shown while they count.
    assert look() == (("CompletingRebalance", "consumer", ""), [(me, None, *ME, b"", b"")])
    ask.sync(connection, Joined(group, me, 1), {me: b"mine"})
    stable = [(me, None, *ME, ask.SUBSCRIPTION, b"mine")]
    assert look() == (("Stable", "consumer", "range"), stable)
    with session_with(broker) as other:
        other.send(ask.join_request(group, instance_id="instance"), 9)
        ask.await_state(connection, group, "PreparingRebalance")
        state, (first, second) = look()
        assert state == ("PreparingRebalance", "consumer", "")
        assert first == (me, None, *ME, b"", b"mine")
        instance = "instance" if version >= INSTANCE_SINCE else None
        assert second[1:] == (instance, *ME, b"", b"")
        ask.leave(connection, group, (me, None), ("", "instance"))
    assert look() == (("Empty", "consumer", ""), [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_does_not_exist_is_dead(
    connection: RawConnection, group: str, version: int
) -> None:
    request = DescribeGroupsRequest(groups=[group, "", group])
    answer = connection.call(request, DescribeGroupsResponse, version)
    assert [found.group_id for found in answer.groups] == [group, "", group]
    for found in answer.groups:
        if version >= NOT_FOUND_SINCE:
            assert found.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert found.error_message == f"Group {found.group_id} not found."
        else:
            assert row(found) == ("Dead", "", "")
        assert (found.group_state, found.members) == ("Dead", [])
    assert connection.call(DescribeGroupsRequest(groups=[]), DescribeGroupsResponse, version) == (
        DescribeGroupsResponse(groups=[])
    )
