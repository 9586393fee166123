"""Consume, transform, produce, with the offsets in the transaction: output and offsets move together or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clients.conftest import TRANSACTION_OPTIONS, MakeTransactional
from tests.clients.copying import TURN_RECORDS, Copier, new_copier
from tests.clients.driver import (
    FENCED,
    TRANSACTION_TIMEOUT_MS,
    RefusedError,
    TransactionalDriver,
)
from tests.clients.transactions_seen import wait_until_at_rest

from ottla.model import TopicPartition
from ottla.testing import Broker

PARTITIONS = 2
RECORDS = 3 * TURN_RECORDS


@pytest.fixture(params=[1, 3], ids=["one node", "three nodes"])
def timed_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker whose clock the test moves."""
    with Broker(TRANSACTION_OPTIONS, nodes=request.param) as broker:
        yield broker


@pytest.fixture
def copier(transactional_client: TransactionalDriver, ottla_topic: str) -> Copier:
    """A copier for which there is something to do."""
    return new_copier(transactional_client, ottla_topic, PARTITIONS, RECORDS)


def test_output_and_offsets_are_committed_together(copier: Copier) -> None:
    with copier.producer() as producer, copier.member() as member:
        for _ in range(PARTITIONS * RECORDS // TURN_RECORDS):
            copier.copy(producer, member, member.read(TURN_RECORDS))
    copier.check_exactly_once()


def test_output_and_offsets_are_aborted_together(copier: Copier) -> None:
    with copier.producer() as producer, copier.member() as member:
        records = member.read(TURN_RECORDS)
        copier.give_up(producer, member, records)
        wait_until_at_rest(copier.client.bootstrap_servers, copier.transactional_id)
        for partition in range(PARTITIONS):
            assert not member.committed(TopicPartition(copier.source, partition))
        for _ in range(PARTITIONS * RECORDS // TURN_RECORDS):
            records = member.read(TURN_RECORDS)
            copier.give_up(producer, member, records)
            copier.copy(producer, member, member.read(TURN_RECORDS))
    copier.check_exactly_once()


def test_a_copier_that_was_replaced_commits_neither_output_nor_offsets(copier: Copier) -> None:
    with copier.producer() as zombie:
        with copier.member() as member:
            records = member.read(TURN_RECORDS)
            zombie.begin()
            copier.send(zombie, member, records)
        with copier.producer() as producer:
            with pytest.raises(RefusedError) as caught:
                zombie.commit()
            assert caught.value.error in FENCED
            with copier.member() as member:
                for _ in range(PARTITIONS * RECORDS // TURN_RECORDS):
                    copier.copy(producer, member, member.read(TURN_RECORDS))
    copier.check_exactly_once()


def test_a_copier_that_died_is_aborted_in_time_and_its_group_goes_on(
    make_transactional: MakeTransactional, timed_broker: Broker, ottla_topic: str
) -> None:
    client = make_transactional(timed_broker.bootstrap_servers)
    copier = new_copier(client, ottla_topic, PARTITIONS, RECORDS)
    with client.transactional_producer(copier.transactional_id) as dying:
        with copier.member() as member:
            records = member.read(TURN_RECORDS)
            dying.begin()
            copier.send(dying, member, records)
        # Another copier, with an id of its own: only the timeout ends the transaction of the first one.
        copier.transactional_id += "-2"
        timed_broker.clock.advance(TRANSACTION_TIMEOUT_MS / 1000 + 1)
        with copier.producer() as producer, copier.member() as member:
            for _ in range(PARTITIONS * RECORDS // TURN_RECORDS):
                copier.copy(producer, member, member.read(TURN_RECORDS))
    copier.check_exactly_once()
