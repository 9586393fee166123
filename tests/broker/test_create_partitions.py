"""CreatePartitions: topics grow, and only grow."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import batch_of, create, every_version_of, fill, produce, session_with

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NODE = 1


def wanted(name: str, count: int, *assignments: list[int]) -> CreatePartitionsTopic:
    assigned = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=assigned or None)


def ask(
    connection: RawConnection,
    *topics: CreatePartitionsTopic,
    validate_only: bool = False,
    version: int = 3,
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(
        topics=list(topics), timeout_ms=1000, validate_only=validate_only
    )
    results: list[CreatePartitionsTopicResult] = connection.call(
        request, CreatePartitionsResponse, version
    ).results
    return results


def partition_count(connection: RawConnection, name: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    (found,) = connection.call(request, MetadataResponse, 9).topics
    return len(found.partitions)


@pytest.mark.parametrize("version", every_version_of(CreatePartitionsRequest))
def test_a_topic_grows_and_keeps_what_it_had(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    assert produce(connection, topic, batch_of(b"v"), partition=2).error_code == 3
    (result,) = ask(connection, wanted(topic, 3), version=version)
    assert (result.name, result.error_code, result.error_message) == (topic, ErrorCode.NONE, None)
    assert partition_count(connection, topic) == 3
    assert fill(connection, topic, b"v") == [1]
    assert fill(connection, topic, b"v", partition=2) == [0]


def test_replicas_may_be_assigned(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    (result,) = ask(connection, wanted(topic, 3, [NODE], [NODE]))
    assert result.error_code == ErrorCode.NONE
    assert partition_count(connection, topic) == 3


@pytest.mark.parametrize(
    ("count", "assignments", "error"),
    [
        (2, [], ErrorCode.INVALID_PARTITIONS),
        (1, [], ErrorCode.INVALID_PARTITIONS),
        (0, [], ErrorCode.INVALID_PARTITIONS),
        (-1, [], ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, [], ErrorCode.INVALID_PARTITIONS),
        (4, [[NODE]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[NODE], [NODE]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[99]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[NODE, NODE]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_cannot_be_is_refused_with_a_reason(
    connection: RawConnection,
    topic: str,
    count: int,
    assignments: list[list[int]],
    error: ErrorCode,
    validate_only: bool,
) -> None:
    create(connection, topic, 2)
    (result,) = ask(connection, wanted(topic, count, *assignments), validate_only=validate_only)
    assert result.error_code == error
    assert result.error_message
    assert partition_count(connection, topic) == 2


def test_validate_only_changes_nothing(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    (result,) = ask(connection, wanted(topic, 5), validate_only=True)
    assert result.error_code == ErrorCode.NONE
    assert partition_count(connection, topic) == 1


def test_topics_that_are_unknown_or_named_twice(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    results = ask(connection, wanted(topic, 2), wanted("no-such-topic", 2), wanted(topic, 3))
    assert {(result.name, result.error_code) for result in results} == {
        (topic, ErrorCode.INVALID_REQUEST),
        ("no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert partition_count(connection, topic) == 1


def test_the_new_count_survives_a_restart(start: Starter, topic: str) -> None:
    broker: ottla.Broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        ask(connection, wanted(topic, 4))
        fill(connection, topic, b"v", partition=3)
    broker.stop()
    with session_with(start()) as connection:
        assert partition_count(connection, topic) == 4
        assert fill(connection, topic, b"w", partition=3) == [1]
