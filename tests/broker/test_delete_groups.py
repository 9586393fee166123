"""DeleteGroups: groups without members go, with their offsets."""

from __future__ import annotations

import pytest
from tests.broker import group_requests as ask
from tests.broker.conftest import Starter
from tests.broker.requests import create, every_version_of, session_with

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

VERSIONS = every_version_of(DeleteGroupsRequest)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_group_has_one_answer(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    create(connection, topic)
    full, offsets, missing = (f"{group}-{kind}" for kind in ("full", "offsets", "missing"))
    member = ask.enter(connection, full)
    ask.commit(connection, full, {(topic, 0): 1}, member=member)
    ask.commit(connection, offsets, {(topic, 0): 2})
    assert ask.delete_groups(connection, full, offsets, missing, full, version=version) == {
        full: ErrorCode.NON_EMPTY_GROUP,
        offsets: ErrorCode.NONE,
        missing: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    request = DeleteGroupsRequest(groups_names=[missing, missing])
    assert len(connection.call(request, DeleteGroupsResponse, version).results) == 1
    assert ask.committed(connection, offsets) == {}
    assert ask.describe(connection, offsets).group_state == "Dead"
    ask.leave(connection, full, (member.member_id, None))
    assert ask.delete_groups(connection, full, version=version) == {full: ErrorCode.NONE}
    assert ask.committed(connection, full) == {}
    assert ask.heartbeat(connection, member) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_deleted_group_begins_anew(connection: RawConnection, group: str) -> None:
    member = ask.enter(connection, group)
    ask.leave(connection, group, (member.member_id, None))
    ask.delete_groups(connection, group)
    assert ask.enter(connection, group).generation == 1


def test_a_group_without_a_name_can_be_deleted(connection: RawConnection, topic: str) -> None:
    """Consumers that manage themselves may commit under no name."""
    create(connection, topic)
    ask.await_coordinator(connection)
    assert ask.commit(connection, "", {(topic, 0): 1}) == [ErrorCode.NONE]
    assert ask.delete_groups(connection, "") == {"": ErrorCode.NONE}
    assert ask.committed(connection, "") == {}


def test_a_deletion_lasts(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        ask.await_coordinator(connection)
        for name in ("gone", "kept"):
            member = ask.enter(connection, name)
            ask.commit(connection, name, {(topic, 0): 1}, member=member)
            ask.leave(connection, name, (member.member_id, None))
        assert ask.delete_groups(connection, "gone") == {"gone": ErrorCode.NONE}
    broker.stop()
    with session_with(start()) as connection:
        assert list(ask.list_groups(connection)) == ["kept"]
        assert ask.committed(connection, "gone") == {}
