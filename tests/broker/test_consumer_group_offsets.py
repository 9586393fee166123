"""Committed offsets of members of the consumer protocol: the member epoch says whether they count (KIP-848)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from tests.broker import group_requests as classic
from tests.broker import txn_requests as txn
from tests.broker.consumer_group_requests import ConsumerMember, settle, topic_id
from tests.broker.group_requests import Joined
from tests.broker.requests import create, every_version_of

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH


@pytest.fixture
def member(connection: RawConnection, topic: str, group: str) -> ConsumerMember:
    """The only member of a stable group that reads four partitions."""
    create(connection, topic, 4)
    made = ConsumerMember(connection, group, topic)
    made.join()
    return made


def commit(
    member: ConsumerMember,
    topic: str,
    *,
    epoch: int | None = None,
    member_id: str | None = None,
    partitions: Mapping[int, int] | None = None,
    version: int = 9,
) -> list[ErrorCode]:
    sender = Joined(
        member.group,
        member.member_id if member_id is None else member_id,
        member.epoch if epoch is None else epoch,
    )
    ids = {topic: topic_id(member.connection, topic)} if version >= 10 else None
    return classic.commit(
        member.connection,
        member.group,
        {(topic, partition): offset for partition, offset in (partitions or {0: 7}).items()},
        member=sender,
        version=version,
        topic_ids=ids,
    )


@pytest.mark.parametrize("version", every_version_of(OffsetCommitRequest))
def test_members_commit_since_version_9(member: ConsumerMember, topic: str, version: int) -> None:
    expected = NONE if version >= 9 else ErrorCode.UNSUPPORTED_VERSION
    assert commit(member, topic, version=version) == [expected]


def test_a_commit_of_another_epoch_does_not_count(member: ConsumerMember, topic: str) -> None:
    assert commit(member, topic) == [NONE]
    assert commit(member, topic, epoch=member.epoch + 1, partitions={0: 8}) == [STALE]
    # The partitions were assigned in this epoch: no commit can be older.
    assert commit(member, topic, epoch=member.epoch - 1, partitions={0: 9}) == [STALE]
    assert commit(member, topic, member_id="somebody") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(member, topic, member_id="", epoch=-1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    found = classic.committed(member.connection, member.group, {topic: [0]})
    assert found[topic, 0].offset == 7


def test_a_late_commit_of_a_partition_that_the_member_has_had_since_counts(
    member: ConsumerMember, topic: str
) -> None:
    before = member.epoch
    other = ConsumerMember(member.connection, member.group, topic)
    other.join()
    settle(member, other)
    assert member.epoch > before
    kept, given_up = member.partitions, other.partitions
    assert commit(member, topic, epoch=before, partitions={kept[0]: 5}) == [NONE]
    # KIP-1251: all of a commit, or nothing of it.
    late = {kept[0]: 6, given_up[0]: 6}
    assert commit(member, topic, epoch=before, partitions=late) == [STALE, STALE]
    found = classic.committed(member.connection, member.group, {topic: [kept[0], given_up[0]]})
    assert (found[topic, kept[0]].offset, found[topic, given_up[0]].offset) == (5, -1)


def test_an_administrator_commits_for_a_group_without_members(
    member: ConsumerMember, topic: str
) -> None:
    member.leave()
    assert commit(member, topic, member_id="", epoch=-1) == [NONE]


def fetch(
    member: ConsumerMember,
    topic: str,
    member_id: str | None,
    epoch: int,
    *,
    version: int = 9,
    all_topics: bool = False,
) -> tuple[ErrorCode, list[int]]:
    by_id = version >= 10
    asked = OffsetFetchRequestTopics(
        name="" if by_id else topic,
        topic_id=topic_id(member.connection, topic) if by_id else uuid.UUID(int=0),
        partition_indexes=[0, 1],
    )
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=member.group,
                member_id=member_id,
                member_epoch=epoch,
                topics=None if all_topics else [asked],
            )
        ]
    )
    (found,) = member.connection.call(request, OffsetFetchResponse, version).groups
    offsets = [each.committed_offset for named in found.topics for each in named.partitions]
    return ErrorCode(found.error_code), offsets


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("all_topics", [False, True])
def test_a_member_fetches_with_its_epoch(
    member: ConsumerMember, topic: str, version: int, all_topics: bool
) -> None:
    assert commit(member, topic) == [NONE]
    expected = [7] if all_topics else [7, -1]
    kind: dict[str, Any] = {"version": version, "all_topics": all_topics}
    assert fetch(member, topic, member.member_id, member.epoch, **kind) == (NONE, expected)
    assert fetch(member, topic, None, -1, **kind) == (NONE, expected)
    assert fetch(member, topic, member.member_id, member.epoch - 1, **kind) == (STALE, [])
    assert fetch(member, topic, member.member_id, -1, **kind) == (STALE, [])
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(member, topic, "somebody", member.epoch, **kind) == (unknown, [])
    assert fetch(member, topic, "", member.epoch, **kind) == (unknown, [])


def test_older_versions_fetch_without_a_member(member: ConsumerMember, topic: str) -> None:
    assert commit(member, topic) == [NONE]
    for version in range(1, 9):
        found = classic.committed(member.connection, member.group, {topic: [0]}, version=version)
        assert found[topic, 0].offset == 7


def test_offsets_of_topics_that_are_read_are_not_deleted(
    member: ConsumerMember, topic: str
) -> None:
    assert commit(member, topic) == [NONE]
    answer = classic.delete_offsets(member.connection, member.group, {topic: [0]})
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    member.leave()
    answer = classic.delete_offsets(member.connection, member.group, {topic: [0]})
    (partition,) = answer.topics[0].partitions
    assert (answer.error_code, partition.error_code) == (NONE, NONE)
    assert classic.committed(member.connection, member.group, {topic: [0]})[topic, 0].offset == -1


def test_transactional_commits_need_the_epoch_of_the_member(
    member: ConsumerMember, topic: str
) -> None:
    connection, group = member.connection, member.group
    name = txn.new_id()
    txn.await_coordinator(connection, name)
    producer = txn.become(connection, name)

    def commit_as(member_id: str, epoch: int) -> list[ErrorCode]:
        return txn.commit_offsets(
            connection,
            name,
            producer,
            group,
            {(topic, 0): 7},
            member_id=member_id,
            generation_id=epoch,
        )

    illegal = ErrorCode.ILLEGAL_GENERATION
    assert commit_as(member.member_id, member.epoch + 1) == [illegal]
    assert commit_as(member.member_id, member.epoch - 1) == [illegal]
    assert commit_as("somebody", member.epoch) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit_as(member.member_id, member.epoch) == [NONE]
    assert txn.end_error(connection, name, producer) is NONE
