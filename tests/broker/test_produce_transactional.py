"""Produce in transactions, where that differs from Produce otherwise."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import pytest
from tests.broker import txn_requests as ask
from tests.broker.conftest import Starter
from tests.broker.held_verification import held_verification
from tests.broker.requests import (
    create,
    fetch,
    held_loop,
    held_thread,
    read_values,
    records_in,
    session_with,
)
from tests.broker.txn_requests import (
    PRODUCE_V2,
    Identity,
    await_coordinator,
    await_state,
    batch,
    become,
    committed_values,
    describe,
    end_error,
    new_id,
    send,
    send_request,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCERS = 4


def test_records_that_wait_for_verification_are_not_overwritten_by_the_next_receive(
    broker: ottla.Broker, topic: str
) -> None:
    # All connections receive into one buffer: A sends, B sends, the loop receives from A and then from B, and only
    # then goes on with A's request, which had to ask the coordinator first.
    with ExitStack() as stack:
        held = [stack.enter_context(session_with(broker)) for _ in range(PRODUCERS)]
        _check_together(broker, held, topic)


def test_records_that_wait_for_the_disk_of_the_coordinator_are_not_overwritten_either(
    start: Starter, topic: str
) -> None:
    # There the coordinator of the same node has to be waited for as one of another node.
    broker = start(log_flush_interval_messages=1)
    with ExitStack() as stack:
        held = [stack.enter_context(session_with(broker)) for _ in range(PRODUCERS)]
        _check_together(broker, held, topic)


def test_records_beside_a_batch_that_takes_long_are_not_overwritten_by_the_next_receive(
    broker: ottla.Broker, topic: str
) -> None:
    """One request begins a transaction on a partition and has a batch for another that is prepared on a thread."""
    with session_with(broker) as session, session_with(broker) as other:
        create(session, topic, 2)
        name = new_id()
        await_coordinator(session, name)
        who = become(session, name)
        long = build_batch(
            [Record(0, 1_700_000_000_000, b"key", bytes(8 << 20))],
            codec=Codec.ZSTD,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=0,
            flags=BatchFlag.TRANSACTIONAL,
        )
        request = send_request(name, topic, batch(who, 0, b"the first"), 0)
        request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=long))
        with held_thread(broker):
            session.send(request, PRODUCE_V2)
            fetch(other, topic * 20, 0)  # received into the same buffer
        answer = session.receive(ProduceResponse, PRODUCE_V2)
        errors = [one.error_code for one in answer.responses[0].partition_responses]
        assert errors == [ErrorCode.NONE] * 2
        assert end_error(session, name, who) is ErrorCode.NONE
        assert committed_values(session, topic, 0) == [b"the first"]


def _check_together(broker: ottla.Broker, held: list[RawConnection], topic: str) -> None:
    create(held[0], topic, PRODUCERS)
    ids = [new_id() for _ in held]
    await_coordinator(held[0], ids[0])
    producers = [become(connection, name) for connection, name in zip(held, ids, strict=True)]
    with held_loop(broker):
        for number, connection in enumerate(held):
            data = batch(producers[number], 0, b"of producer %d" % number)
            connection.send(send_request(ids[number], topic, data, number), PRODUCE_V2)
    for number, connection in enumerate(held):
        answer = connection.receive(ProduceResponse, PRODUCE_V2)
        (partition,) = answer.responses[0].partition_responses
        assert ErrorCode(partition.error_code) is ErrorCode.NONE
        assert read_values(connection, topic, number) == [b"of producer %d" % number]


def _become_producer(connection: RawConnection) -> tuple[str, Identity]:
    transactional_id = new_id()
    await_coordinator(connection, transactional_id)
    return transactional_id, become(connection, transactional_id)


def _send_all(
    connection: RawConnection, transactional_id: str, topic: str, batches: list[tuple[int, bytes]]
) -> list[tuple[int, ErrorCode, int]]:
    """Sends batches in one request; of each, the partition, the error and the base offset that were answered."""
    data = [PartitionProduceData(index=partition, records=batch) for partition, batch in batches]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    answer = connection.call(request, ProduceResponse, PRODUCE_V2)
    return [
        (each.index, ErrorCode(each.error_code), each.base_offset)
        for each in answer.responses[0].partition_responses
    ]


def test_a_request_may_begin_a_transaction_on_some_partitions_and_go_on_with_it_on_others(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, 3)
    transactional_id, who = _become_producer(connection)
    assert send(connection, transactional_id, who, topic, 0, b"1", partition=1) is ErrorCode.NONE
    answered = _send_all(
        connection,
        transactional_id,
        topic,
        [
            (0, batch(who, 0, b"first of 0")),
            (1, batch(who, 1, b"second of 1")),
            (2, batch(who, 7, b"out of order")),
        ],
    )
    assert answered == [
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.NONE, 1),
        (2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
    ]
    assert end_error(connection, transactional_id, who) is ErrorCode.NONE
    await_state(connection, transactional_id, "CompleteCommit")
    found = [committed_values(connection, topic, partition) for partition in range(3)]
    assert found == [[b"first of 0"], [b"1", b"second of 1"], []]


def test_two_batches_of_a_partition_in_one_request_may_begin_a_transaction(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    transactional_id, who = _become_producer(connection)
    batches = [(0, batch(who, 0, b"1")), (0, batch(who, 1, b"2"))]
    answered = _send_all(connection, transactional_id, topic, batches)
    assert answered == [(0, ErrorCode.NONE, 0), (0, ErrorCode.NONE, 1)]


def test_the_first_batch_of_a_transaction_is_rewritten_once(
    connection: RawConnection, topic: str
) -> None:
    # It is prepared before the coordinator is asked: a batch that has the broker's time already would be refused.
    create(connection, topic, config={"message.timestamp.type": "LogAppendTime"})
    transactional_id, who = _become_producer(connection)
    request = send_request(transactional_id, topic, batch(who, 0, b"value"))
    (partition,) = (
        connection.call(request, ProduceResponse, PRODUCE_V2).responses[0].partition_responses
    )
    assert ErrorCode(partition.error_code) is ErrorCode.NONE
    assert partition.log_append_time_ms > 0
    (record,) = records_in(fetch(connection, topic, 0))
    assert record.timestamp == partition.log_append_time_ms


def test_a_batch_that_is_refused_does_not_join_the_transaction(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, 2)
    transactional_id, who = _become_producer(connection)
    damaged = bytearray(batch(who, 0, b"damaged"))
    damaged[-1] ^= 1
    batches = [(0, bytes(damaged)), (1, batch(who, 0, b"sound"))]
    answered = _send_all(connection, transactional_id, topic, batches)
    assert [error for _, error, _ in answered] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]
    (found,) = describe(connection, transactional_id).topics
    assert found.partitions == [1]


# Without an answer.


@pytest.mark.parametrize("version", [ask.PRODUCE_V1, ask.PRODUCE_V2])
def test_acks_0_that_waits_for_the_coordinator_gets_no_answer_and_is_appended(
    caplog: pytest.LogCaptureFixture, version: int
) -> None:
    with (
        ottla.Broker() as broker,
        RawConnection(broker.bootstrap_servers) as connection,
        RawConnection(broker.bootstrap_servers) as other,
    ):
        create(connection, "orders")
        name = ask.new_id()
        ask.await_coordinator(connection, name)
        who = ask.become(connection, name)
        if version == ask.PRODUCE_V1:
            ask.add_partitions(connection, name, who, {"orders": [0]})
        with held_verification(broker) as held:
            for sequence in range(3):
                data = ask.batch(who, sequence, b"%d" % sequence)
                request = ask.send_request(name, "orders", data, acks=0)
                connection.send(request, version)
            held.await_one()
            assert ask.high_watermark(other, "orders") == 0
        # The next answer on the connection is that of the next request.
        assert ask.high_watermark(connection, "orders") == 3
        end = ask.END_V1 if version == ask.PRODUCE_V1 else ask.END_V2
        assert ask.end_error(connection, name, who, commits=True, version=end) is ErrorCode.NONE
        assert ask.is_healed(connection, "orders")
        assert ask.committed_values(connection, "orders") == [b"0", b"1", b"2"]
    assert "bug" not in caplog.text


def test_acks_0_learns_by_a_closed_connection_what_the_coordinator_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        ottla.Broker() as broker,
        RawConnection(broker.bootstrap_servers) as connection,
        RawConnection(broker.bootstrap_servers) as other,
    ):
        create(connection, "orders")
        name = ask.new_id()
        ask.await_coordinator(connection, name)
        who = ask.become(connection, name)
        ask.become(other, name)
        with held_verification(broker) as held, caplog.at_level(logging.INFO, "ottla"):
            data = ask.batch(who, 0, b"zombie")
            connection.send(ask.send_request(name, "orders", data, acks=0), ask.PRODUCE_V2)
            held.await_one()
            held.release()
            with pytest.raises((ConnectionError, EOFError)):
                connection.receive_frame()
        assert ask.high_watermark(other, "orders") == 0
    assert "acks=0 failed with INVALID_PRODUCER_EPOCH" in caplog.text
    assert "bug" not in caplog.text
