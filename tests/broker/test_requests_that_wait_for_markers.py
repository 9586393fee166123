"""Requests that begin something new while a transaction of their id ends: they wait, for a moment (ADR 0073)."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.broker import txn_requests as ask
from tests.broker.held_verification import HeldAnswers, held_markers
from tests.broker.requests import create
from tests.lasting import LASTING

import ottla
from ottla.client.raw import RawConnection
from ottla.core.txn.waiting_requests import LONGEST_WAIT_MS
from ottla.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import ProduceResponse

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
TOPIC = "orders"
# Less than a request waits at most.
WHILE_SECONDS = LONGEST_WAIT_MS / 1000 / 3


class Ending:
    """A producer whose transaction is committed, and whose coordinator does not hear of the markers."""

    def __init__(self, broker: ottla.Broker, version: int) -> None:
        self.broker = broker
        self.connection = RawConnection(broker.bootstrap_servers)
        self.other = RawConnection(broker.bootstrap_servers)
        self.name = ask.new_id()
        ask.await_coordinator(self.connection, self.name)
        self.who = ask.become(self.connection, self.name)
        produce = ask.PRODUCE_V1 if version == 1 else ask.PRODUCE_V2
        if version == 1:
            assert ask.add_partitions(self.connection, self.name, self.who, {TOPIC: [0]}) == [NONE]
        sent = ask.send(self.connection, self.name, self.who, TOPIC, version=produce)
        assert sent is NONE
        self.end_version = ask.END_V1 if version == 1 else ask.END_V2

    def commit(self) -> None:
        answer = ask.end(self.connection, self.name, self.who, version=self.end_version)
        assert answer.error_code == NONE
        if answer.producer_id >= 0:
            self.who = ask.Identity(answer.producer_id, answer.producer_epoch)

    def is_answered(self) -> bool:
        """Whether an answer arrives within a while."""
        return bool(select.select([self.connection.socket], [], [], WHILE_SECONDS)[0])

    def close(self) -> None:
        self.connection.close()
        self.other.close()


@pytest.fixture(scope="module")
def module_broker() -> Iterator[ottla.Broker]:
    with (
        ottla.Broker(LASTING) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        create(connection, TOPIC, 2)
        yield broker


Held = tuple[Ending, HeldAnswers]


@pytest.fixture(params=[1, 2])
def held(module_broker: ottla.Broker, request: pytest.FixtureRequest) -> Iterator[Held]:
    ending = Ending(module_broker, request.param)
    with held_markers(module_broker) as markers:
        ending.commit()
        markers.await_one()
        yield ending, markers
    ending.close()


def add_request(ending: Ending) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ending.name,
        v3_and_below_producer_id=ending.who.producer_id,
        v3_and_below_producer_epoch=ending.who.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[1])],
    )


def init_request(ending: Ending) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=ending.name, transaction_timeout_ms=ask.TIMEOUT_MS
    )


def offsets_request(ending: Ending) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=ending.name,
        producer_id=ending.who.producer_id,
        producer_epoch=ending.who.epoch,
        group_id="group",
    )


def added(answer: Any) -> ErrorCode:
    (topic,) = answer.results_by_topic_v3_and_below
    return ErrorCode(topic.results_by_partition[0].partition_error_code)


def error_in(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


Make = Callable[[Ending], Any]
REQUESTS = pytest.mark.parametrize(
    ("make", "response", "version", "error_of", "state"),
    [
        (add_request, AddPartitionsToTxnResponse, ask.ADD_CLIENT_VERSION, added, "Ongoing"),
        (offsets_request, AddOffsetsToTxnResponse, 3, error_in, "Ongoing"),
        (init_request, InitProducerIdResponse, 4, error_in, "Empty"),
    ],
    ids=["AddPartitionsToTxn", "AddOffsetsToTxn", "InitProducerId"],
)


@REQUESTS
def test_a_request_is_answered_when_the_markers_are_written(
    held: Held, make: Make, response: type[Any], version: int, error_of: Any, state: str
) -> None:
    ending, markers = held
    ending.connection.send(make(ending), version)
    assert not ending.is_answered()
    markers.release()
    assert error_of(ending.connection.receive(response, version)) is NONE
    assert ask.state_of(ending.other, ending.name) == state


@REQUESTS
def test_a_request_is_put_off_when_the_markers_do_not_come(
    held: Held, make: Make, response: type[Any], version: int, error_of: Any, state: str
) -> None:
    ending, markers = held
    began = time.monotonic()
    answer = ending.connection.call(make(ending), response, version)
    assert error_of(answer) is CONCURRENT
    assert time.monotonic() - began >= WHILE_SECONDS
    assert ask.state_of(ending.other, ending.name) == "PrepareCommit"
    markers.release()
    # It has changed nothing, and does not later.
    ask.await_state(ending.other, ending.name, "CompleteCommit")


def test_the_first_batch_of_the_next_transaction_of_version_2_waits_too(
    module_broker: ottla.Broker,
) -> None:
    ending = Ending(module_broker, 2)
    with held_markers(module_broker) as markers:
        ending.commit()
        markers.await_one()
        data = ask.batch(ending.who, 0, b"next")
        request = ask.send_request(ending.name, TOPIC, data, partition=1)
        ending.connection.send(request, ask.PRODUCE_V2)
        assert not ending.is_answered()
        markers.release()
        answer = ending.connection.receive(ProduceResponse, ask.PRODUCE_V2)
        assert answer.responses[0].partition_responses[0].error_code == NONE
    assert ask.state_of(ending.other, ending.name) == "Ongoing"
    ending.close()


def test_a_producer_whose_id_is_taken_over_while_it_waits_is_fenced(held: Held) -> None:
    ending, markers = held
    ending.other.send(init_request(ending), 4)
    # The coordinator has it before the request of the old instance.
    assert ask.state_of(ending.connection, ending.name) == "PrepareCommit"
    time.sleep(WHILE_SECONDS / 3)
    ending.connection.send(add_request(ending), ask.ADD_CLIENT_VERSION)
    assert not ending.is_answered()
    markers.release()
    assert error_in(ending.other.receive(InitProducerIdResponse, 4)) is NONE
    answer = ending.connection.receive(AddPartitionsToTxnResponse, ask.ADD_CLIENT_VERSION)
    assert added(answer) is ErrorCode.PRODUCER_FENCED
    assert ask.state_of(ending.other, ending.name) == "Empty"


def test_answers_keep_the_order_of_a_connection(held: Held) -> None:
    """Of two requests that wait, the first is decided about first."""
    ending, markers = held
    ending.connection.send(add_request(ending), ask.ADD_CLIENT_VERSION)
    ending.connection.send(init_request(ending), 4)
    assert not ending.is_answered()
    markers.release()
    answer = ending.connection.receive(AddPartitionsToTxnResponse, ask.ADD_CLIENT_VERSION)
    assert added(answer) is NONE
    # The transaction that the first has begun is ended by the new instance, which comes again.
    assert error_in(ending.connection.receive(InitProducerIdResponse, 4)) is CONCURRENT
    markers.await_one()
    markers.end()
    ask.become(ending.connection, ending.name)
