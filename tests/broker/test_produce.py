"""Produce: acknowledgements, topics, and what the answer says. Batches and sequences have files of their own."""

from __future__ import annotations

import uuid

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    batch_of,
    connection_count,
    create,
    delete,
    delete_records,
    eventually,
    every_version_of,
    fetch,
    fill,
    now_ms,
    produce,
    produce_request,
    read_values,
    records_in,
    session_with,
    set_options,
    values_in,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import split_batches
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

NAMED_VERSIONS = [version for version in every_version_of(ProduceRequest) if version < 13]


@pytest.mark.parametrize("version", NAMED_VERSIONS)
def test_a_batch_is_appended_and_read_back_whatever_the_version(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic)
    first = produce(connection, topic, batch_of(b"one", b"two"), version=version)
    second = produce(connection, topic, batch_of(b"three"), version=version)
    assert (first.error_code, first.base_offset) == (ErrorCode.NONE, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, 2)
    assert second.log_append_time_ms == -1
    assert second.log_start_offset == (0 if version >= 5 else -1)
    assert read_values(connection, topic) == [b"one", b"two", b"three"]


def test_version_13_names_topics_by_id(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic)
    unknown_id = uuid.uuid4()
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                topic_id=each,
                partition_data=[PartitionProduceData(index=0, records=batch_of(b"v"))],
            )
            for each in (topic_id, unknown_id)
        ],
    )
    known, unknown = connection.call(request, ProduceResponse, 13).responses
    assert known.topic_id == topic_id
    assert known.partition_responses[0].error_code == ErrorCode.NONE
    assert unknown.topic_id == unknown_id
    assert unknown.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert unknown.partition_responses[0].base_offset == -1
    assert read_values(connection, topic) == [b"v"]


@pytest.mark.parametrize("acks", [-1, 1])
def test_acknowledged_records_are_readable_at_once(
    connection: RawConnection, topic: str, acks: int
) -> None:
    create(connection, topic)
    assert produce(connection, topic, batch_of(b"v"), acks=acks).error_code == ErrorCode.NONE
    assert values_in(fetch(connection, topic, 0)) == [b"v"]


def test_acks_0_gets_no_answer_and_is_appended(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    for number in range(3):
        connection.send(produce_request(topic, batch_of(b"%d" % number), acks=0), 9)
    # The next answer is that of the next request: nothing was answered in between.
    assert fill(connection, topic, b"last") == [3]
    assert read_values(connection, topic) == [b"0", b"1", b"2", b"last"]


def test_acks_0_learns_of_an_error_by_a_closed_connection(
    start: Starter, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(auto_create_topics_enable=False)
    with session_with(broker) as connection:
        connection.send(produce_request(topic, batch_of(b"v"), acks=0), 9)
        with pytest.raises(ConnectionError):
            connection.receive_frame()
        assert eventually(lambda: connection_count(broker) == 0)
    assert "acks=0 failed with UNKNOWN_TOPIC_OR_PARTITION" in caplog.text


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused_and_nothing_is_appended(
    connection: RawConnection, topic: str, acks: int
) -> None:
    create(connection, topic)
    result = produce(connection, topic, batch_of(b"v"), acks=acks)
    assert result.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert result.base_offset == -1
    assert read_values(connection, topic) == []


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_a_partition_that_does_not_exist(
    connection: RawConnection, topic: str, partition: int
) -> None:
    create(connection, topic)
    result = produce(connection, topic, batch_of(b"v"), partition=partition)
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [3, 12])
def test_produce_itself_creates_no_topic(
    connection: RawConnection, topic: str, version: int
) -> None:
    result = produce(connection, topic, batch_of(b"v"), version=version)
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result.base_offset == -1


def test_one_bad_partition_does_not_keep_the_others_from_being_appended(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, partitions=3)
    damaged = bytearray(batch_of(b"v"))
    damaged[-1] ^= 1
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=0, records=batch_of(b"v")),
                    PartitionProduceData(index=1, records=bytes(damaged)),
                    PartitionProduceData(index=2, records=batch_of(b"v")),
                    PartitionProduceData(index=3, records=batch_of(b"v")),
                ],
            )
        ],
    )
    (answer,) = connection.call(request, ProduceResponse, 12).responses
    assert [(result.index, result.error_code) for result in answer.partition_responses] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.CORRUPT_MESSAGE),
        (2, ErrorCode.NONE),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [len(read_values(connection, topic, each)) for each in range(3)] == [1, 0, 1]


def test_a_request_without_topics_is_answered(connection: RawConnection) -> None:
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[])
    assert connection.call(request, ProduceResponse, 9).responses == []


def test_min_insync_replicas_above_what_exists(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"min.insync.replicas": "2"})
    result = produce(connection, topic, batch_of(b"v"))
    assert result.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    # It is a promise to acks=all only.
    assert produce(connection, topic, batch_of(b"v"), acks=1).error_code == ErrorCode.NONE
    assert set_options(connection, topic, {"min.insync.replicas": "1"}) == ErrorCode.NONE
    assert produce(connection, topic, batch_of(b"v")).error_code == ErrorCode.NONE


def test_the_answer_tells_where_the_log_starts(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2", b"3")
    delete_records(connection, topic, 2)
    assert produce(connection, topic, batch_of(b"4")).log_start_offset == 2


def test_log_append_time_is_the_brokers_and_is_answered(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = now_ms()
    result = produce(connection, topic, batch_of(b"v", b"w"))
    assert before_ms <= result.log_append_time_ms <= now_ms()
    found = fetch(connection, topic, 0)
    assert {record.timestamp for record in records_in(found)} == {result.log_append_time_ms}


def test_batches_bear_the_epoch_of_their_leader_and_their_offsets(
    start: Starter, topic: str
) -> None:
    epochs = []
    for generation in range(2):
        broker = start()
        with session_with(broker) as connection:
            if generation == 0:
                create(connection, topic)
            fill(connection, topic, b"v")
            raw = bytes(fetch(connection, topic, generation).records or b"")
            ((_, header),) = split_batches(raw)
            assert header.base_offset == generation
            epochs.append(header.partition_leader_epoch)
            request = OffsetForLeaderEpochRequest(
                topics=[
                    OffsetForLeaderTopic(
                        topic=topic,
                        partitions=[
                            OffsetForLeaderPartition(
                                partition=0,
                                current_leader_epoch=epochs[-1],
                                leader_epoch=epochs[-1],
                            )
                        ],
                    )
                ]
            )
            end = connection.call(request, OffsetForLeaderEpochResponse, 4).topics[0].partitions[0]
            assert (end.error_code, end.end_offset) == (ErrorCode.NONE, generation + 1)
        broker.stop()
    assert epochs[0] < epochs[1]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_clients_may_not_write_to_internal_topics(connection: RawConnection, name: str) -> None:
    result = produce(connection, name, batch_of(b"v"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_that_was_deleted_takes_nothing_more(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    assert delete(connection, topic).error_code == ErrorCode.NONE
    result = produce(connection, topic, batch_of(b"w"))
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(connection, topic)
    assert fill(connection, topic, b"x") == [0]
    assert read_values(connection, topic) == [b"x"]
