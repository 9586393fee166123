"""DescribeProducers: what a partition remembers of its producers."""

from __future__ import annotations

from tests.broker import txn_requests as ask
from tests.broker.requests import create, fill, new_producer_id, now_ms, produce, sequenced

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)


def test_every_producer_is_described(connection: RawConnection, topic: str) -> None:
    create(connection, topic, 1)
    transactional_id = ask.new_id()
    ask.await_coordinator(connection, transactional_id)
    begun_ms = now_ms()
    fill(connection, topic, b"of nobody")
    idempotent = new_producer_id(connection)
    assert produce(connection, topic, sequenced(idempotent, 0, 3)).error_code == ErrorCode.NONE
    who = ask.become(connection, transactional_id)
    for sequence in (0, 1):
        error = ask.send(connection, transactional_id, who, topic, sequence)
        assert error is ErrorCode.NONE
    found = ask.producers_of(connection, topic)
    assert set(found) == {idempotent, who.producer_id}
    plain, transactional = found[idempotent], found[who.producer_id]
    assert (plain.producer_epoch, plain.last_sequence) == (0, 2)
    assert (plain.coordinator_epoch, plain.current_txn_start_offset) == (-1, -1)
    assert (transactional.last_sequence, transactional.current_txn_start_offset) == (1, 4)
    assert begun_ms <= transactional.last_timestamp <= now_ms()
    ask.end(connection, transactional_id, who)
    ask.await_state(connection, transactional_id, "CompleteCommit")
    ended = ask.producers_of(connection, topic)[who.producer_id]
    assert (ended.producer_epoch, ended.last_sequence) == (who.epoch + 1, -1)
    assert ended.current_txn_start_offset == -1
    assert ended.coordinator_epoch >= 0


def test_partitions_that_do_not_exist(connection: RawConnection, topic: str) -> None:
    create(connection, topic, 1)
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name=topic, partition_indexes=[0, 1, -1]),
            TopicRequest(name="missing", partition_indexes=[0]),
        ]
    )
    answer = connection.call(request, DescribeProducersResponse, 0)
    found = [
        [ErrorCode(partition.error_code) for partition in one.partitions] for one in answer.topics
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [[ErrorCode.NONE, unknown, unknown], [unknown]]
    assert answer.topics[0].partitions[0].active_producers == []
