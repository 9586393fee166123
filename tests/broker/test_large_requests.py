"""Requests that name very many things: they cost in proportion, and everybody else goes on."""

from __future__ import annotations

import time

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import on_loop, session_with

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

MANY = 20_000
# What took more than ten seconds when the checks for repetitions were quadratic.
SECONDS = 9.0


def test_many_partitions_named_twice(connection: RawConnection) -> None:
    partitions = [
        ListOffsetsPartition(partition_index=i % (MANY // 2), timestamp=-1) for i in range(MANY)
    ]
    topic = ListOffsetsTopic(name="nowhere", partitions=partitions)
    began = time.monotonic()
    answer = connection.call(
        ListOffsetsRequest(replica_id=-1, topics=[topic]), ListOffsetsResponse, 7
    )
    assert time.monotonic() - began < SECONDS
    errors = {found.error_code for found in answer.topics[0].partitions}
    assert errors == {ErrorCode.INVALID_REQUEST}


def test_many_topics_to_validate(connection: RawConnection) -> None:
    topics = [
        CreatableTopic(
            name=f"never-{i}", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for i in range(MANY // 4)
    ]
    began = time.monotonic()
    answer = connection.call(
        CreateTopicsRequest(topics=topics, validate_only=True), CreateTopicsResponse, 4
    )
    assert time.monotonic() - began < SECONDS
    assert {result.error_code for result in answer.topics} == {ErrorCode.NONE}


@pytest.mark.parametrize("way", ["first use", "CreateTopics"])
def test_topics_of_one_request_are_one_change_of_the_catalog(start: Starter, way: str) -> None:
    broker = start()
    names = [f"new-{i}" for i in range(500)] + ["a.b", "a_b", "/"]
    with session_with(broker) as connection:
        before = on_loop(broker, lambda running: running.cluster.store.catalog.revision)
        if way == "first use":
            wanted = [MetadataRequestTopic(name=name) for name in names]
            errors = [
                topic.error_code
                for topic in connection.call(
                    MetadataRequest(topics=wanted), MetadataResponse, 9
                ).topics
            ]
        else:
            topics = [
                CreatableTopic(
                    name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
                for name in names
            ]
            errors = [
                topic.error_code
                for topic in connection.call(
                    CreateTopicsRequest(topics=topics), CreateTopicsResponse, 4
                ).topics
            ]
        after = on_loop(broker, lambda running: running.cluster.store.catalog.revision)
    refused = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert errors == [ErrorCode.NONE] * 501 + [refused, refused]
    assert after == before + 1
