"""CreateTopics: what is made, what is only checked, and every way to be refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import create, every_version_of, fill, session_with

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.types import ZERO_UUID

NEWEST = 7
NODE = 1


def wanted(
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    assignments: list[tuple[int, list[int]]] | None = None,
    config: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments or ()
        ],
        configs=[
            CreatableTopicConfig(name=option, value=value)
            for option, value in (config or {}).items()
        ],
    )


def ask(
    connection: RawConnection, *topics: CreatableTopic, version: int = NEWEST, **fields: Any
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), **fields)
    results: list[CreatableTopicResult] = connection.call(
        request, CreateTopicsResponse, version
    ).topics
    return results


def exists(connection: RawConnection, name: str) -> bool:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    (found,) = connection.call(request, MetadataResponse, 12).topics
    return bool(found.error_code == ErrorCode.NONE)


@pytest.mark.parametrize("version", every_version_of(CreateTopicsRequest))
def test_a_topic_is_made_and_described(connection: RawConnection, topic: str, version: int) -> None:
    (made,) = ask(connection, wanted(topic, 3, 1, config={"retention.ms": "1000"}), version=version)
    assert (made.name, made.error_code, made.error_message) == (topic, ErrorCode.NONE, None)
    assert exists(connection, topic)
    assert (made.topic_id != ZERO_UUID) == (version >= 7)
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        options = {option.name: option for option in made.configs or ()}
        assert options["retention.ms"].value == "1000"
        assert options["retention.ms"].config_source == 1
        assert options["cleanup.policy"].value == "delete"
        assert options["cleanup.policy"].config_source == 5
    assert fill(connection, topic, b"v", partition=2) == [0]


def test_minus_one_takes_the_brokers_defaults(start: Starter, topic: str) -> None:
    with session_with(start(num_partitions=4)) as connection:
        (made,) = ask(connection, wanted(topic))
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 4, 1)


def test_replicas_may_be_assigned(connection: RawConnection, topic: str) -> None:
    (made,) = ask(connection, wanted(topic, assignments=[(1, [NODE]), (0, [NODE])]))
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 1)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": 2**31 - 1}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"config": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"retention.ms": "-2"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"no.such.option": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"cleanup.policy": "shred"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"compression.type": "brotli"}}, ErrorCode.INVALID_CONFIG),
        (
            {"config": {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}},
            ErrorCode.INVALID_CONFIG,
        ),
        ({"assignments": [(0, [NODE])], "partitions": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(0, [NODE])], "replication_factor": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(1, [NODE])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [NODE]), (2, [NODE])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [NODE]), (0, [NODE])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [NODE, NODE])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [99])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [NODE]), (1, [])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_cannot_be_made_is_refused_with_a_reason(
    connection: RawConnection,
    topic: str,
    changes: dict[str, Any],
    error: ErrorCode,
    validate_only: bool,
) -> None:
    (result,) = ask(connection, wanted(topic, **changes), validate_only=validate_only)
    assert (result.name, result.error_code) == (topic, error)
    assert result.error_message
    assert not exists(connection, topic)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "ü", "a,b", "x" * 250, "a\x00b", "a:b"]
)
def test_names_that_are_not_allowed(connection: RawConnection, name: str) -> None:
    (result,) = ask(connection, wanted(name))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message


def test_names_at_the_limits_of_what_is_allowed(connection: RawConnection, topic: str) -> None:
    longest = topic + "x" * (249 - len(topic))
    for name in (longest, f"{topic}.with_all-of.them", f"...{topic}", f"-{topic}"):
        (made,) = ask(connection, wanted(name))
        assert made.error_code == ErrorCode.NONE
        assert fill(connection, name, b"v") == [0]


def test_a_topic_that_exists(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    for validate_only in (False, True):
        (result,) = ask(connection, wanted(topic), validate_only=validate_only)
        assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert result.topic_id == ZERO_UUID


def test_dots_and_underscores_count_as_the_same(connection: RawConnection, topic: str) -> None:
    create(connection, f"{topic}.a_b")
    (result,) = ask(connection, wanted(f"{topic}_a.b"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert f"{topic}.a_b" in (result.error_message or "")


def test_a_topic_named_twice_in_a_request_is_not_made(
    connection: RawConnection, topic: str
) -> None:
    other = f"{topic}-other"
    results = ask(connection, wanted(topic), wanted(other), wanted(topic, 2))
    assert {result.name: result.error_code for result in results} == {
        topic: ErrorCode.INVALID_REQUEST,
        other: ErrorCode.NONE,
    }
    assert len(results) == 2
    assert not exists(connection, topic)
    assert exists(connection, other)


@pytest.mark.parametrize("version", [2, NEWEST])
def test_validate_only_says_what_would_be_and_makes_nothing(
    connection: RawConnection, topic: str, version: int
) -> None:
    (result,) = ask(connection, wanted(topic, 3), version=version, validate_only=True)
    assert result.error_code == ErrorCode.NONE
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
    assert not exists(connection, topic)


def test_one_refusal_does_not_keep_the_others_from_being_made(
    connection: RawConnection, topic: str
) -> None:
    results = ask(connection, wanted(topic, 0), wanted(f"{topic}-2"), wanted("bad name"))
    assert [result.error_code for result in results] == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_topics_survive_a_restart_with_their_ids_and_options(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        topic_id = create(connection, topic, 3, {"max.message.bytes": "5000"})
    broker.stop()
    with session_with(start()) as connection:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        (found,) = connection.call(request, MetadataResponse, 12).topics
        assert (found.topic_id, len(found.partitions)) == (topic_id, 3)
        (again,) = ask(connection, wanted(topic))
        assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
