"""TxnOffsetCommit at every version, and who may commit for a group (KIP-447)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests
from tests.broker import txn_requests as ask
from tests.broker.requests import create, eventually, every_version_of
from tests.broker.txn_requests import Identity

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

EVERY_VERSION = pytest.mark.parametrize("version", every_version_of(TxnOffsetCommitRequest))
IMPLICIT_SINCE = 5
NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
TransactionalId = str


@pytest.fixture
def name(connection: RawConnection, topic: str, group: str) -> TransactionalId:
    create(connection, topic, 2)
    made = ask.new_id()
    ask.await_coordinator(connection, made)
    return made


def begin(connection: RawConnection, name: str, group: str, version: int) -> Identity:
    who = ask.become(connection, name)
    if version < IMPLICIT_SINCE:
        assert ask.add_offsets(connection, name, who, group) is NONE
    return who


def stable(connection: RawConnection, group: str, topic: str, partition: int = 0) -> object:
    """The offset and its metadata, or the error."""
    answer = group_requests.fetch_offsets(
        connection, group, {topic: [partition]}, require_stable=True
    )
    found = answer.groups[0].topics[0].partitions[0]
    if found.error_code != NONE:
        return ErrorCode(found.error_code)
    return found.committed_offset, found.metadata


@EVERY_VERSION
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_when_the_transaction_is_committed(
    connection: RawConnection, topic: str, group: str, name: str, version: int, commits: bool
) -> None:
    """Trap 10: with their metadata."""
    who = begin(connection, name, group, version)
    errors = ask.commit_offsets(
        connection, name, who, group, {(topic, 0): 7}, version=version, metadata="batch 3"
    )
    assert errors == [NONE]
    assert stable(connection, group, topic) is UNSTABLE
    # Who does not ask for stable offsets gets what was committed before: nothing.
    found = group_requests.committed(connection, group, {topic: [0]})
    assert found[topic, 0].offset == -1
    end = ask.END_V2 if version >= IMPLICIT_SINCE else ask.END_V1
    assert ask.end_error(connection, name, who, commits=commits, version=end) is NONE
    expected = (7, "batch 3") if commits else (-1, "")
    assert eventually(lambda: stable(connection, group, topic) == expected)


@EVERY_VERSION
def test_partitions_are_answered_each_on_its_own(
    connection: RawConnection, topic: str, group: str, name: str, version: int
) -> None:
    who = begin(connection, name, group, version)
    wanted = {("missing", 0): 1, (topic, 9): 1, (topic, 0): 1}
    errors = ask.commit_offsets(connection, name, who, group, wanted, version=version)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= ask.OFFSETS_BY_TOPIC_ID else unknown
    assert errors == [missing, unknown, NONE]
    errors = ask.commit_offsets(
        connection, name, who, group, {(topic, 1): 1}, version=version, metadata="m" * 4097
    )
    assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


@EVERY_VERSION
def test_nothing_is_written_outside_of_a_transaction(
    connection: RawConnection, topic: str, group: str, name: str, version: int
) -> None:
    who = ask.become(connection, name)
    (error,) = ask.commit_offsets(
        connection, name, who.older(), group, {(topic, 0): 1}, version=version
    )
    assert error is ErrorCode.INVALID_PRODUCER_EPOCH
    (error,) = ask.commit_offsets(connection, name, who, group, {(topic, 0): 1}, version=version)
    expected = {6: NONE, 5: NONE, 4: ErrorCode.TRANSACTION_ABORTABLE}
    assert error is expected.get(version, ErrorCode.INVALID_TXN_STATE)
    is_pending = stable(connection, group, topic) is UNSTABLE
    assert is_pending == (version >= IMPLICIT_SINCE)


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_only_members_of_the_generation_commit_for_a_group(
    connection: RawConnection, topic: str, group: str, name: str, version: int
) -> None:
    member = group_requests.enter(connection, group)
    who = begin(connection, name, group, version)

    def commit(**details: Any) -> ErrorCode:
        (error,) = ask.commit_offsets(
            connection, name, who, group, {(topic, 0): 1}, version=version, **details
        )
        return error

    right = {"generation_id": member.generation, "member_id": member.member_id}
    assert commit(**{**right, "generation_id": member.generation - 1}) is (
        ErrorCode.ILLEGAL_GENERATION
    )
    assert commit(**{**right, "member_id": "stranger"}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(**{**right, "group_instance_id": "nobody"}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stable(connection, group, topic) == (-1, "")
    assert commit(**right) is NONE
    assert stable(connection, group, topic) is UNSTABLE


@pytest.mark.parametrize("version", [3, 5, 6])
def test_a_generation_of_a_group_that_does_not_exist_is_refused(
    connection: RawConnection, topic: str, group: str, name: str, version: int
) -> None:
    """Since topics go by id, clients are told that the group is the reason (KIP-1319)."""
    who = begin(connection, name, group, version)
    member: dict[str, Any] = {"generation_id": 3, "member_id": "stranger"}
    (error,) = ask.commit_offsets(
        connection, name, who, group, {(topic, 0): 1}, version=version, **member
    )
    by_id = version >= ask.OFFSETS_BY_TOPIC_ID
    assert error is (ErrorCode.GROUP_ID_NOT_FOUND if by_id else ErrorCode.ILLEGAL_GENERATION)


@pytest.mark.parametrize("version", [0, 2, 5, 6])
def test_the_last_commit_of_a_transaction_counts(
    connection: RawConnection, topic: str, group: str, name: str, version: int
) -> None:
    who = begin(connection, name, group, version)
    for offset in (3, 9, 4):
        ask.commit_offsets(connection, name, who, group, {(topic, 0): offset}, version=version)
    end = ask.END_V2 if version >= IMPLICIT_SINCE else ask.END_V1
    ask.end(connection, name, who, version=end)
    assert eventually(lambda: stable(connection, group, topic) == (4, ""))


def test_a_commit_outside_that_is_newer_is_kept(
    connection: RawConnection, topic: str, group: str, name: str
) -> None:
    """The record of the transaction is older than the one that was written while it was open."""
    who = begin(connection, name, group, 5)
    ask.commit_offsets(connection, name, who, group, {(topic, 0): 3})
    (error,) = group_requests.commit(connection, group, {(topic, 0): 8})
    assert error is NONE
    ask.end(connection, name, who)
    ask.await_state(connection, name, "CompleteCommit")
    assert eventually(lambda: stable(connection, group, topic) == (8, ""))


def test_a_group_that_is_deleted_or_expired_is_never_unstable_for_ever(
    connection: RawConnection, topic: str, group: str, name: str
) -> None:
    """Trap 5."""
    who = begin(connection, name, group, 5)
    ask.commit_offsets(connection, name, who, group, {(topic, 0): 3})
    assert group_requests.delete_groups(connection, group) == {group: NONE}
    assert stable(connection, group, topic) == (-1, "")
    ask.end(connection, name, who)
    ask.await_state(connection, name, "CompleteCommit")
    assert stable(connection, group, topic) == (-1, "")
