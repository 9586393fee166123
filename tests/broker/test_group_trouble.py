"""What a coordinator could not write never happened: the answer is an error, and the log is what counts."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from tests.broker import group_requests as ask
from tests.broker.conftest import Starter
from tests.broker.failing_calls import fail_calls
from tests.broker.group_requests import Joined, Position
from tests.broker.requests import create, eventually, on_loop, session_with

import ottla
from ottla.broker.coordination.coordinator import Coordinator
from ottla.client.raw import RawConnection
from ottla.core.catalog import GROUPS_TOPIC
from ottla.core.group.machine import GroupMachine
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse

GROUP = "group"
NOT_HERE = ErrorCode.NOT_COORDINATOR


def commit(connection: RawConnection, topic: str, offset: int) -> ErrorCode:
    (error,) = ask.commit(connection, GROUP, {(topic, 0): offset})
    return error


def offset(connection: RawConnection, topic: str) -> int:
    """The committed offset, once the coordinator is back."""

    def is_back() -> bool:
        (found,) = ask.fetch_offsets(connection, GROUP, {topic: [0]}).groups
        return bool(found.error_code == ErrorCode.NONE)

    assert eventually(is_back)
    return ask.committed(connection, GROUP)[topic, 0].offset


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_commit_that_is_not_written_is_not_seen(
    start: Starter, monkeypatch: pytest.MonkeyPatch, topic: str, number: int
) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        ask.await_coordinator(connection)
        assert commit(connection, topic, 1) is ErrorCode.NONE
        with monkeypatch.context() as patch:
            fail_calls(patch, broker, GROUPS_TOPIC, number, "pwrite")
            assert commit(connection, topic, 2) is not ErrorCode.NONE
        assert offset(connection, topic) == 1
        assert eventually(lambda: commit(connection, topic, 3) is ErrorCode.NONE)
        assert offset(connection, topic) == 3


def test_a_commit_that_is_not_synced_is_not_acknowledged(
    start: Starter, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    broker = start(log_flush_interval_messages=1)
    with session_with(broker) as connection:
        create(connection, topic)
        ask.await_coordinator(connection)
        assert commit(connection, topic, 1) is ErrorCode.NONE
        with monkeypatch.context() as patch:
            fail_calls(patch, broker, GROUPS_TOPIC, errno.EIO, "fdatasync")
            assert commit(connection, topic, 2) is not ErrorCode.NONE
        # Whether it reached the disk is not known; what is seen is what the log has.
        assert offset(connection, topic) in (1, 2)
        assert eventually(lambda: commit(connection, topic, 3) is ErrorCode.NONE)
        assert offset(connection, topic) == 3


def test_an_assignment_that_is_not_written_is_given_to_nobody(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start()
    with session_with(broker) as connection:
        ask.await_coordinator(connection)
        answer = ask.join_fully(connection, GROUP)
        member = Joined(GROUP, answer.member_id, answer.generation_id)
        with monkeypatch.context() as patch:
            fail_calls(patch, broker, GROUPS_TOPIC, errno.EIO, "pwrite")
            synced = ask.sync(connection, member, {member.member_id: b"lost"})
            assert (synced.error_code, bytes(synced.assignment)) == (NOT_HERE, b"")

        def is_unknown() -> bool:
            return ask.heartbeat(connection, member) is ErrorCode.UNKNOWN_MEMBER_ID

        assert eventually(is_unknown)
        assert ask.enter(connection, GROUP).generation == 1


def break_codec(broker: ottla.Broker) -> None:
    """Makes the group's next record one that cannot be written."""

    def fail(*arguments: Any) -> Any:
        raise ValueError("this cannot be a record")

    def change(running: Any) -> None:
        found: Coordinator[GroupMachine] = running.node.groups.find(GROUP)
        codec = found._settings.codec
        assert codec.columns is not None
        codec = codec._replace(encode=fail, columns=codec.columns._replace(encode=fail))
        found._settings = found._settings._replace(codec=codec)

    on_loop(broker, change)


def test_what_cannot_be_a_record_is_answered_and_undone(start: Starter, topic: str) -> None:
    """Or the request would wait for ever, and others would see what no restart finds again."""
    broker = start()
    with session_with(broker) as connection, session_with(broker) as other:
        create(connection, topic)
        ask.await_coordinator(connection)
        assert commit(connection, topic, 1) is ErrorCode.NONE
        # Somebody who waits at the same coordinator is told to look for it again, which no client takes for fatal.
        member = ask.enter(connection, GROUP)
        new_id = ask.new_member_id(other, GROUP)
        other.send(ask.join_request(GROUP, new_id), 9)
        ask.await_state(connection, GROUP, "PreparingRebalance")
        break_codec(broker)
        position = {(topic, 0): Position(2)}
        errors = ask.commit(connection, GROUP, position, member=member)
        assert errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
        waiting = other.receive(JoinGroupResponse, 9)
        assert waiting.error_code == NOT_HERE
        assert offset(connection, topic) == 1
        assert ask.heartbeat(connection, member) is ErrorCode.NONE


def test_a_failing_disk_of_one_broker_does_not_reach_another_in_the_process(
    start: Starter, monkeypatch: pytest.MonkeyPatch, topic: str, tmp_path: Path
) -> None:
    sick, well = start(), start(data_dir=tmp_path / "well", log_flush_interval_messages=1)
    with session_with(sick) as connection, session_with(well) as other:
        for each in (connection, other):
            create(each, topic)
            ask.await_coordinator(each)
        with monkeypatch.context() as patch:
            fail_calls(patch, sick, GROUPS_TOPIC, errno.EIO, "pwrite", "fdatasync", "fsync", "open")
            assert commit(connection, topic, 1) is not ErrorCode.NONE
            assert commit(other, topic, 1) is ErrorCode.NONE
        assert offset(other, topic) == 1
