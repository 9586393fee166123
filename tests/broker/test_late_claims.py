"""An engine that is at work on a claim: batches wait for it in their order, and none overtakes the one before it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.broker.requests import (
    create,
    delete,
    eventually,
    fetch,
    on_loop,
    produce_request,
    sequenced,
)

import ottla
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.client.raw import RawConnection
from ottla.config.topic import TopicConfig
from ottla.errors import ErrorCode
from ottla.ports import ClaimPendingError, LogStore, PartitionLog, PartitionRef
from ottla.wire.messages.produce import ProduceResponse

TOPIC = "late"
VERSION = 9
NONE = ErrorCode.NONE


class LateClaims(ottla.Broker):
    """A broker whose engine claims partitions of a topic not before it may."""

    may_claim: asyncio.Future[None] | None = None
    tries = 0

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        return start_broker(settings, Instruments(wrap_store=self._wrap))

    def _wrap(self, store: LogStore) -> LogStore:
        claim_at_once = store.claim

        def claim(ref: PartitionRef, config: TopicConfig) -> PartitionLog:
            if ref.topic != TOPIC:
                return claim_at_once(ref, config)
            self.tries += 1
            if self.may_claim is None:
                self.may_claim = asyncio.get_running_loop().create_future()
            if not self.may_claim.done():
                raise ClaimPendingError("it takes its time", self.may_claim)
            return claim_at_once(ref, config)

        replaced = "claim"
        setattr(store, replaced, claim)
        return store

    def let_claim(self) -> None:
        def let(_: RunningBroker) -> None:
            assert self.may_claim is not None
            self.may_claim.set_result(None)

        on_loop(self, let)


@pytest.fixture
def broker() -> Iterator[LateClaims]:
    with LateClaims() as started:
        yield started


@pytest.fixture
def connection(broker: LateClaims) -> Iterator[RawConnection]:
    with RawConnection(broker.bootstrap_servers) as made:
        create(made, TOPIC)
        yield made


def answered(connection: RawConnection) -> tuple[ErrorCode, int]:
    answer = connection.receive(ProduceResponse, VERSION)
    found = answer.responses[0].partition_responses[0]
    return ErrorCode(found.error_code), found.base_offset


def test_batches_of_a_new_producer_keep_their_order_while_the_partition_is_opened(
    broker: LateClaims, connection: RawConnection
) -> None:
    # If the first were refused, and the second came when the partition is open, it would be accepted: the partition
    # does not know the producer. The first would then be out of order for ever.
    for sequence in range(3):
        connection.send(produce_request(TOPIC, sequenced(7, sequence)), VERSION)
    assert eventually(lambda: broker.tries > 0)
    broker.let_claim()
    assert [answered(connection) for _ in range(3)] == [(NONE, 0), (NONE, 1), (NONE, 2)]


def test_a_batch_without_acknowledgement_is_not_lost_while_the_partition_is_opened(
    broker: LateClaims, connection: RawConnection
) -> None:
    connection.send(produce_request(TOPIC, sequenced(7, 0), acks=0), VERSION)
    assert eventually(lambda: broker.tries > 0)
    broker.let_claim()
    with RawConnection(broker.bootstrap_servers) as other:
        assert eventually(lambda: fetch(other, TOPIC, 0).high_watermark == 1)


def test_a_batch_waits_no_longer_than_its_request_says(
    broker: LateClaims, connection: RawConnection
) -> None:
    hasty = replace(produce_request(TOPIC, sequenced(7, 0)), timeout_ms=50)
    connection.send(hasty, VERSION)
    assert answered(connection) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    broker.let_claim()
    connection.send(produce_request(TOPIC, sequenced(7, 0)), VERSION)
    assert answered(connection) == (NONE, 0)


def test_a_batch_for_a_topic_that_is_deleted_meanwhile_is_refused(
    broker: LateClaims, connection: RawConnection
) -> None:
    connection.send(produce_request(TOPIC, sequenced(7, 0)), VERSION)
    assert eventually(lambda: broker.tries > 0)
    with RawConnection(broker.bootstrap_servers) as other:
        delete(other, TOPIC)
    broker.let_claim()
    assert answered(connection) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
