"""DescribeTopicPartitions: pages that fit together, whatever their size."""

from __future__ import annotations

from itertools import chain

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import create, session_with

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.types import ZERO_UUID


def ask(
    connection: RawConnection, names: list[str], limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    answer: DescribeTopicPartitionsResponse = connection.call(
        request, DescribeTopicPartitionsResponse, 0
    )
    return answer


def pages(connection: RawConnection, names: list[str], limit: int) -> list[list[tuple[str, int]]]:
    """The partitions of each page, until there is no cursor."""
    found = []
    cursor = None
    while True:
        answer = ask(connection, names, limit, cursor)
        found.append(
            [
                (topic.name or "", each.partition_index)
                for topic in answer.topics
                for each in topic.partitions
            ]
        )
        cursor = answer.next_cursor
        if cursor is None:
            return found


def test_a_topic_with_all_its_partitions(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic, 2)
    answer = ask(connection, [topic])
    assert answer.next_cursor is None
    (found,) = answer.topics
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.NONE, topic, topic_id)
    assert not found.is_internal
    assert [each.partition_index for each in found.partitions] == [0, 1]
    for each in found.partitions:
        assert (each.error_code, each.leader_id) == (ErrorCode.NONE, 1)
        assert each.leader_epoch >= 0
        assert each.replica_nodes == each.isr_nodes == [1]
        assert each.eligible_leader_replicas == each.last_known_elr == each.offline_replicas == []


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9, 100])
def test_pages_hold_at_most_the_limit_and_miss_nothing(start: Starter, limit: int) -> None:
    with session_with(start()) as connection:
        counts = {"b": 3, "a": 2, "c": 4}
        for name, count in counts.items():
            create(connection, name, count)
        everything = [(name, each) for name in sorted(counts) for each in range(counts[name])]
        for names in ([], ["c", "a", "b"]):
            found = pages(connection, names, limit)
            assert all(len(page) <= limit for page in found)
            assert list(chain(*found)) == everything
        assert list(chain(*pages(connection, ["c"], limit))) == [("c", each) for each in range(4)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_without_room_still_gets_ahead(
    connection: RawConnection, topic: str, limit: int
) -> None:
    create(connection, topic, 2)
    assert pages(connection, [topic], limit) == [[(topic, 0)], [(topic, 1)]]


def test_the_brokers_own_limit_holds_too(connection: RawConnection, topic: str) -> None:
    create(connection, topic, 2001)
    found = pages(connection, [topic], 2**31 - 1)
    assert [len(page) for page in found] == [2000, 1]


def test_topics_that_do_not_exist(connection: RawConnection, topic: str) -> None:
    answer = ask(connection, [topic, "not a name"])
    assert {(found.name, found.error_code) for found in answer.topics} == {
        (topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    }
    assert all(found.topic_id == ZERO_UUID for found in answer.topics)
    assert all(found.partitions == [] for found in answer.topics)
    # It is not created by being asked for.
    assert ask(connection, [topic]).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_cursor_into_the_middle(connection: RawConnection, topic: str) -> None:
    create(connection, topic, 5)
    answer = ask(connection, [topic], cursor=Cursor(topic_name=topic, partition_index=3))
    assert [each.partition_index for each in answer.topics[0].partitions] == [3, 4]
    beyond = ask(connection, [topic], cursor=Cursor(topic_name=topic, partition_index=50))
    assert (beyond.topics[0].partitions, beyond.next_cursor) == ([], None)


def test_a_cursor_at_a_topic_that_was_deleted_goes_on_behind_it(start: Starter) -> None:
    with session_with(start()) as connection:
        for name in ("a", "c"):
            create(connection, name)
        answer = ask(connection, [], cursor=Cursor(topic_name="b", partition_index=7))
        assert [
            (found.name, [each.partition_index for each in found.partitions])
            for found in answer.topics
        ] == [("c", [0])]


@pytest.mark.parametrize("cursor", [("other", 0), ("", 0), (None, -1)])
def test_cursors_that_cannot_be(
    connection: RawConnection, topic: str, cursor: tuple[str | None, int]
) -> None:
    create(connection, topic)
    name, partition = cursor
    wrong = Cursor(topic_name=topic if name is None else name, partition_index=partition)
    answer = ask(connection, [topic], cursor=wrong)
    assert [found.error_code for found in answer.topics] == [ErrorCode.INVALID_REQUEST]
