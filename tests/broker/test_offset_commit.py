"""OffsetCommit: each partition has its own answer, at every version."""

from __future__ import annotations

import uuid

import pytest
from tests.broker import group_requests as ask
from tests.broker.group_requests import Position
from tests.broker.requests import create, every_version_of, read_values

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.types import ZERO_UUID

VERSIONS = every_version_of(OffsetCommitRequest)
LEADER_EPOCH_SINCE = 6


@pytest.mark.parametrize("version", VERSIONS)
def test_what_can_be_committed_is_and_the_rest_is_refused_in_place(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    by_id = version >= ask.TOPIC_IDS_SINCE
    ids = {topic: create(connection, topic, 3), "no-such-topic": uuid.uuid4()}
    positions: dict[tuple[str, int], int | Position] = {
        ("no-such-topic", 0): 1,
        (topic, 2): Position(22, "two", 5),
        (topic, 3): 1,
        (topic, 1): Position(1, "m" * 4097),
        (topic, 0): Position(0, None),
    }
    request = ask.commit_request(group, positions, topic_ids=ids if by_id else None)
    answer = connection.call(request, OffsetCommitResponse, version)
    named = [(one.name, one.topic_id) for one in answer.topics]
    if by_id:
        assert named == [("", ids["no-such-topic"]), ("", ids[topic])]
    else:
        assert named == [("no-such-topic", ZERO_UUID), (topic, ZERO_UUID)]
    errors = {
        (number, one.partition_index): ErrorCode(one.error_code)
        for number, found in enumerate(answer.topics)
        for one in found.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == {
        (0, 0): ErrorCode.UNKNOWN_TOPIC_ID if by_id else unknown,
        (1, 2): ErrorCode.NONE,
        (1, 3): unknown,
        (1, 1): ErrorCode.OFFSET_METADATA_TOO_LARGE,
        (1, 0): ErrorCode.NONE,
    }
    epoch = 5 if version >= LEADER_EPOCH_SINCE else -1
    assert ask.committed(connection, group) == {
        (topic, 2): Position(22, "two", epoch),
        (topic, 0): Position(0, "", -1),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_commit_counts(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    ids = {topic: create(connection, topic)} if version >= ask.TOPIC_IDS_SINCE else None
    if ids is None:
        create(connection, topic)
    for offset in (5, 3, 4):
        errors = ask.commit(connection, group, {(topic, 0): offset}, version=version, topic_ids=ids)
        assert errors == [ErrorCode.NONE]
    assert ask.committed(connection, group)[topic, 0].offset == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_members_commit_with_their_generation(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    topic_id = create(connection, topic)
    ids = {topic: topic_id} if version >= ask.TOPIC_IDS_SINCE else None
    member = ask.enter(connection, group)

    def commit(generation: int) -> list[ErrorCode]:
        return ask.commit(
            connection,
            group,
            {(topic, 0): 5 + generation},
            member=member._replace(generation=generation),
            version=version,
            topic_ids=ids,
        )

    assert commit(member.generation) == [ErrorCode.NONE]
    assert commit(member.generation - 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert ask.committed(connection, group)[topic, 0].offset == 6


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_without_topics_has_an_answer_without_topics(
    connection: RawConnection, group: str, version: int
) -> None:
    answer = connection.call(ask.commit_request(group, {}), OffsetCommitResponse, version)
    assert answer.topics == []


def test_a_commit_at_the_newest_version_without_a_topic_id_names_no_topic(
    connection: RawConnection, group: str, topic: str
) -> None:
    create(connection, topic)
    errors = ask.commit(
        connection, group, {(topic, 0): 1}, version=10, topic_ids={topic: ZERO_UUID}
    )
    assert errors == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_partition_twice_in_a_request_is_answered_twice(
    connection: RawConnection, group: str, topic: str
) -> None:
    create(connection, topic)
    request = ask.commit_request(group, {(topic, 0): 1})
    request.topics *= 2
    answer = connection.call(request, OffsetCommitResponse, 9)
    errors = [one.error_code for found in answer.topics for one in found.partitions]
    assert errors == [ErrorCode.NONE] * 2
    assert read_values(connection, topic) == []
