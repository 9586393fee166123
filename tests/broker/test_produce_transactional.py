"""Produce in transactions, where that differs from Produce otherwise."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from tests.broker.requests import create, on_loop, read_values, session_with
from tests.broker.txn_requests import (
    PRODUCE_V2,
    await_coordinator,
    batch,
    become,
    new_id,
    send_request,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.produce import ProduceResponse

PRODUCERS = 4


def test_records_that_wait_for_verification_are_not_overwritten_by_the_next_receive(
    broker: ottla.Broker, topic: str
) -> None:
    # All connections receive into one buffer: A sends, B sends, the loop receives from A and then from B, and only
    # then goes on with A's request, which had to ask the coordinator first.
    with ExitStack() as stack:
        held = [stack.enter_context(session_with(broker)) for _ in range(PRODUCERS)]
        _check_together(broker, held, topic)


def _check_together(broker: ottla.Broker, held: list[RawConnection], topic: str) -> None:
    create(held[0], topic, PRODUCERS)
    ids = [new_id() for _ in held]
    await_coordinator(held[0], ids[0])
    producers = [become(connection, name) for connection, name in zip(held, ids, strict=True)]
    are_sent = threading.Event()
    holding = threading.Thread(target=lambda: on_loop(broker, lambda _: are_sent.wait(10)))
    holding.start()
    for number, connection in enumerate(held):
        data = batch(producers[number], 0, b"of producer %d" % number)
        connection.send(send_request(ids[number], topic, data, number), PRODUCE_V2)
    are_sent.set()
    holding.join()
    for number, connection in enumerate(held):
        answer = connection.receive(ProduceResponse, PRODUCE_V2)
        (partition,) = answer.responses[0].partition_responses
        assert ErrorCode(partition.error_code) is ErrorCode.NONE
        assert read_values(connection, topic, number) == [b"of producer %d" % number]
