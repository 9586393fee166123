"""Requests that name very many things: they cost in proportion, and everybody else goes on."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    FETCH_BYTES,
    TOPIC,
    batch_of,
    create,
    eventually,
    fetch,
    fetch_request,
    on_loop,
    produce,
    produce_request,
    session_with,
    waiter_count,
)

import ottla
from ottla.broker.handlers.metadata import MAX_CREATED
from ottla.broker.network.server import DEPARTED_CHECK_MS
from ottla.broker.topics import MAX_CREATED_PER_REQUEST
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

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
    names = [f"new-{i}" for i in range(40)] + ["a.b", "a_b", "/"]
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
    assert errors == [ErrorCode.NONE] * 41 + [refused, refused]
    assert after == before + 1


def test_one_request_makes_so_many_topics_and_may_be_repeated(start: Starter) -> None:
    names = ["/", *(f"new-{i}" for i in range(3 * MAX_CREATED))]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    with session_with(start()) as connection:
        for made in (MAX_CREATED, 2 * MAX_CREATED, 3 * MAX_CREATED):
            answer = connection.call(request, MetadataResponse, 9)
            errors = [topic.error_code for topic in answer.topics]
            assert errors[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
            later = [ErrorCode.LEADER_NOT_AVAILABLE] * (len(names) - 1 - made)
            assert errors[1:] == [ErrorCode.NONE] * made + later


def test_more_topics_than_kafka_makes_at_once_are_refused(connection: RawConnection) -> None:
    def topics(*counts: int) -> list[CreatableTopic]:
        return [
            CreatableTopic(
                name=f"vast-{number}",
                num_partitions=count,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for number, count in enumerate(counts)
        ]

    for counts, error in (
        ((MAX_CREATED_PER_REQUEST - 1,), ErrorCode.NONE),
        ((MAX_CREATED_PER_REQUEST,), ErrorCode.POLICY_VIOLATION),
        ((1, MAX_CREATED_PER_REQUEST), ErrorCode.POLICY_VIOLATION),
    ):
        request = CreateTopicsRequest(topics=topics(*counts), validate_only=True)
        answer = connection.call(request, CreateTopicsResponse, 5)
        assert {result.error_code for result in answer.topics} == {error}


def test_a_name_that_is_repeated_is_one(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    names = [MetadataRequestTopic(name=topic)] * MANY
    answer = connection.call(MetadataRequest(topics=names), MetadataResponse, 9)
    assert [found.name for found in answer.topics] == [topic]

    resources: list[DescribeConfigsResource] = []
    for number in range(5000):
        keys = None if number % 2 else ["retention.ms"]
        resources.append(
            DescribeConfigsResource(
                resource_type=TOPIC, resource_name=topic, configuration_keys=keys
            )
        )
    described = connection.call(
        DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, 4
    )
    counts = [len(result.configs) for result in described.results]
    assert counts[0] == 1
    assert counts[1] > 20
    assert len(counts) == 2


def test_elements_beyond_the_limit_cost_the_connection(broker: ottla.Broker) -> None:
    partitions = [
        FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(70_000)
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="t", partitions=partitions)]
    )
    with session_with(broker) as connection, pytest.raises(ConnectionError):
        connection.call(request, FetchResponse, 12)
    with session_with(broker) as connection:
        assert connection.call(MetadataRequest(topics=[]), MetadataResponse, 9).topics == []


def test_many_partitions_are_fetched(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    count = 1000
    create(connection, topic, count)
    for partition in range(0, count, 100):
        produce(connection, topic, batch_of(b"x"), partition=partition)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_epoch=0,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
                    for number in range(count)
                ],
            )
        ],
    )
    answer = connection.call(request, FetchResponse, 12)
    assert answer.session_id
    found = answer.responses[0].partitions
    assert [one.partition_index for one in found] == list(range(count))
    assert [one.partition_index for one in found if one.records] == list(range(0, count, 100))
    # A request of a few bytes about them all.
    again = FetchRequest(
        max_wait_ms=10_000,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_id=answer.session_id,
        session_epoch=1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=number, fetch_offset=1, partition_max_bytes=1 << 20)
                    for number in range(0, count, 100)
                ],
            )
        ],
    )
    connection.send(again, 12)
    with session_with(broker) as other:
        produce(other, topic, batch_of(b"y"), partition=777)
    answer = connection.receive(FetchResponse, 12)
    told = [one.partition_index for one in answer.responses[0].partitions if one.records]
    assert told == [777]


def test_sessions_end_with_their_connections(start: Starter) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, "t")
        request = fetch_request("t", 0, session_epoch=0)
        assert connection.call(request, FetchResponse, 12).session_id
        assert on_loop(broker, lambda running: len(running.node.sessions)) == 1
    assert eventually(lambda: on_loop(broker, lambda running: len(running.node.sessions)) == 0)


@pytest.mark.parametrize("count", [3, 200, 3000])
def test_offsets_of_many_partitions_are_committed_and_found(
    connection: RawConnection, group: str, topic: str, count: int
) -> None:
    create(connection, topic, 200)
    commits = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number % 250, committed_offset=number, committed_metadata=""
                )
                for number in range(count)
            ],
        )
    ]
    committed = connection.call(
        OffsetCommitRequest(group_id=group, member_id="", topics=commits), OffsetCommitResponse, 8
    )
    (about,) = committed.topics
    assert [one.partition_index for one in about.partitions] == [n % 250 for n in range(count)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.error_code for one in about.partitions] == [
        ErrorCode.NONE if number % 250 < 200 else unknown for number in range(count)
    ]
    wanted = OffsetFetchRequestGroup(
        group_id=group,
        topics=[
            OffsetFetchRequestTopics(
                name=topic, partition_indexes=[number % 250 for number in range(count)]
            )
        ],
    )
    found = connection.call(OffsetFetchRequest(groups=[wanted]), OffsetFetchResponse, 8)
    (of_group,) = found.groups
    (of_topic,) = of_group.topics
    offsets = {one.partition_index: one.committed_offset for one in of_topic.partitions}
    last = {number % 250: number for number in range(count)}
    assert offsets == {part: last[part] if part < 200 else -1 for part in last}


def test_many_partitions_of_a_produce_request(connection: RawConnection, topic: str) -> None:
    create(connection, topic, 300)
    data = batch_of(b"x")
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=number, records=data) for number in range(400)
                ],
            )
            for name in (topic, "nowhere-1", topic)
        ],
    )
    answer = connection.call(request, ProduceResponse, 9)
    told = [
        (about.name, one.index, one.error_code, one.base_offset)
        for about in answer.responses
        for one in about.partition_responses
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == [
        (name, number, ErrorCode.NONE, offset)
        if name == topic and number < 300
        else (name, number, unknown, -1)
        for name, offset in ((topic, 0), ("nowhere-1", -1), (topic, 1))
        for number in range(400)
    ]


def test_many_partitions_of_a_produce_request_that_wants_no_answer(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, 300)
    data = batch_of(b"x")
    partitions = [PartitionProduceData(index=number, records=data) for number in range(300)]
    request = ProduceRequest(
        acks=0,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
    )
    connection.send(request, 9)
    # The next request is answered after it.
    assert fetch(connection, topic, 0, partition=299).high_watermark == 1


def test_one_wrong_partition_of_many_stops_no_other_where_no_answer_is_wanted(
    broker: ottla.Broker, topic: str
) -> None:
    with session_with(broker) as session:
        create(session, topic, 300)
        data = batch_of(b"x")
        partitions = [PartitionProduceData(index=number, records=data) for number in range(300)]
        partitions[5].index = 999
        request = ProduceRequest(
            acks=0,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
        )
        session.send(request, 9)
        with pytest.raises(ConnectionError):
            fetch(session, topic, 0)
    with session_with(broker) as session:
        assert [
            fetch(session, topic, 0, partition=number).high_watermark for number in (0, 5, 299)
        ] == [1, 0, 1]


def many_to_wait_for(topic: str, count: int, **fields: Any) -> FetchRequest:
    """A fetch of empty partitions, for as long as a client can say."""
    request = fetch_request(topic, 0, max_wait_ms=2**31 - 1, **fields)
    request.topics[0].partitions += [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
        for number in range(1, count)
    ]
    return request


def test_a_large_fetch_ends_with_its_client(broker: ottla.Broker, topic: str) -> None:
    """Its connection is not read from, which would tell that the client has gone."""
    with session_with(broker) as session:
        create(session, topic, 300)
        session.send(many_to_wait_for(topic, 300), 12)
        assert eventually(lambda: waiter_count(broker) == 300)
    assert eventually(lambda: waiter_count(broker) == 0)


def test_what_was_sent_before_a_client_went_is_handled(broker: ottla.Broker, topic: str) -> None:
    """While one request waits, those behind it are on their way; only when they are done the client has gone."""
    with session_with(broker) as session:
        create(session, topic, 300)
        session.send(many_to_wait_for(topic, 300), 12)
        assert eventually(lambda: waiter_count(broker) == 300)
        session.send(produce_request(topic, batch_of(b"last"), acks=0, partition=299), 9)
    with session_with(broker) as other:
        time.sleep(DEPARTED_CHECK_MS * 2.5 / 1000)
        assert produce(other, topic, batch_of(b"first")).error_code == ErrorCode.NONE
        assert eventually(lambda: fetch(other, topic, 0, partition=299).high_watermark == 1)


def test_a_large_fetch_that_waits_keeps_neither_its_frame_nor_its_request(
    broker: ottla.Broker, topic: str
) -> None:
    with session_with(broker) as session:
        create(session, topic)
        request = many_to_wait_for(topic, 1)
        name = "x" * 30_000
        request.forgotten_topics_data = [ForgottenTopic(topic=name, partitions=[1])] * 1000
        session.send(request, 12)
        del request
        assert eventually(lambda: waiter_count(broker) == 1)
        assert on_loop(broker, lambda found: found.server.unfinished.total_bytes) == 0
        gc.collect()
        assert not [one for one in gc.get_objects() if isinstance(one, ForgottenTopic)]


def test_a_fetch_of_many_topics_is_no_attack(connection: RawConnection) -> None:
    """A mirror of a large cluster reads as many topics of one partition each."""
    topics = [
        FetchTopic(
            topic=f"topic-{number}",
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
        )
        for number in range(32_000)
    ]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=FETCH_BYTES, topics=topics)
    answer = connection.call(request, FetchResponse, 12)
    assert len(answer.responses) == 32_000
