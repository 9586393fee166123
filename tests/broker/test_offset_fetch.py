"""OffsetFetch: one group or many, by name or by id, some topics or all."""

from __future__ import annotations

import uuid

import pytest
from tests.broker import group_requests as ask
from tests.broker.group_requests import Position
from tests.broker.requests import create, every_version_of, session_with

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.types import ZERO_UUID

VERSIONS = every_version_of(OffsetFetchRequest)
NAMED = [version for version in VERSIONS if version < ask.TOPIC_IDS_SINCE]
ALL_TOPICS_SINCE, TOP_LEVEL_ERROR_SINCE, LEADER_EPOCH_SINCE, STABLE_SINCE = 2, 2, 5, 7
NOTHING = Position(-1, "", -1)


@pytest.mark.parametrize("version", NAMED)
def test_what_was_committed_and_what_was_not(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    create(connection, topic, 2)
    ask.commit(connection, group, {(topic, 1): Position(9, "nine", 4)})
    # Whether there is such a topic or partition makes no difference.
    wanted = {"no-such-topic": [0], topic: [7, 1, 0, -1]}
    epoch = 4 if version >= LEADER_EPOCH_SINCE else -1
    found = ask.committed(connection, group, wanted, version=version)
    assert list(found.items()) == [
        (("no-such-topic", 0), NOTHING),
        ((topic, 7), NOTHING),
        ((topic, 1), Position(9, "nine", epoch)),
        ((topic, 0), NOTHING),
        ((topic, -1), NOTHING),
    ]
    assert ask.committed(connection, group, {}, version=version) == {}
    assert set(ask.committed(connection, "no-such-group", wanted, version=version).values()) == {
        NOTHING
    }


@pytest.mark.parametrize("version", [one for one in NAMED if one >= ALL_TOPICS_SINCE])
def test_all_topics_of_a_group(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    create(connection, topic, 3)
    assert ask.committed(connection, group, None, version=version) == {}
    ask.commit(connection, group, {(topic, 2): 2, (topic, 0): 0})
    found = ask.committed(connection, group, None, version=version)
    assert found == {(topic, 2): Position(2), (topic, 0): Position(0)}
    if version >= STABLE_SINCE:
        stable = ask.fetch_offsets(connection, group, version=version, require_stable=True)
        assert stable == ask.fetch_offsets(connection, group, version=version)


@pytest.mark.parametrize("version", [8, 9])
def test_many_groups_each_have_an_answer(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    create(connection, topic, 2)
    ask.commit(connection, group, {(topic, 0): 5})
    ask.commit(connection, f"{group}-2", {(topic, 1): 6})
    groups = {group: {topic: [0]}, "no-such-group": None, f"{group}-2": None, "": {topic: [1]}}
    request = ask.fetch_groups_request(groups)
    answer = connection.call(request, OffsetFetchResponse, version)
    assert [found.group_id for found in answer.groups] == list(groups)
    assert {found.error_code for found in answer.groups} == {ErrorCode.NONE}
    offsets = [
        [
            (found.name, one.partition_index, one.committed_offset)
            for found in group_found.topics
            for one in found.partitions
        ]
        for group_found in answer.groups
    ]
    assert offsets == [[(topic, 0, 5)], [], [(topic, 1, 6)], [(topic, 1, -1)]]
    assert connection.call(OffsetFetchRequest(), OffsetFetchResponse, version).groups == []


def test_the_newest_version_knows_topics_by_their_ids(
    connection: RawConnection, group: str, topic: str
) -> None:
    topic_id, stranger = create(connection, topic), uuid.uuid4()
    ask.commit(connection, group, {(topic, 0): 5})
    wanted = [
        OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0])
        for one in (stranger, topic_id, ZERO_UUID)
    ]
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=group, topics=wanted),
            OffsetFetchRequestGroup(group_id=group, topics=None),
        ]
    )
    some, every = connection.call(request, OffsetFetchResponse, 10).groups
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert [
        (one.topic_id, one.partitions[0].committed_offset, one.partitions[0].error_code)
        for one in some.topics
    ] == [(stranger, -1, unknown), (topic_id, 5, ErrorCode.NONE), (ZERO_UUID, -1, unknown)]
    assert [(one.topic_id, one.partitions[0].committed_offset) for one in every.topics] == [
        (topic_id, 5)
    ]
    assert (some.error_code, every.error_code) == (ErrorCode.NONE, ErrorCode.NONE)


@pytest.mark.parametrize("version", NAMED)
def test_an_error_stands_where_the_version_has_room_for_it(version: int) -> None:
    """Nobody has asked for the coordinator yet, so there is none."""
    with ottla.Broker() as broker, session_with(broker) as connection:
        answer = ask.fetch_offsets(connection, "g", {"t": [0, 1]}, version=version)
    error = ErrorCode.NOT_COORDINATOR
    if version >= ask.FETCH_BATCHED_SINCE:
        (found,) = answer.groups
        assert (found.group_id, found.error_code, found.topics) == ("g", error, [])
    elif version >= TOP_LEVEL_ERROR_SINCE:
        assert (answer.error_code, answer.topics) == (error, [])
    else:
        (topic,) = answer.topics
        assert [(one.committed_offset, one.error_code) for one in topic.partitions] == [
            (-1, error)
        ] * 2
