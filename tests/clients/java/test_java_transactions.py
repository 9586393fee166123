"""Transactions of Apache Kafka's Java client: version 2 of them (KIP-890), and what its admin client says and does."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest
from tests.clients.broker_side import batches_of
from tests.clients.driver import FENCED, ConsumerOptions, RefusedError
from tests.clients.java.agent import Agent
from tests.clients.java.driver import Java, JavaAdmin
from tests.clients.messages import numbered
from tests.clients.recording import recorded_broker
from tests.clients.transactions_seen import (
    describe,
    ends,
    leader_address,
    offsets_partition,
    wait_for,
    wait_until_at_rest,
    wait_until_stable,
)

from ottla import Broker
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.declare import info_of
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

TIMEOUT_MS = 60_000
COMMITTED = ConsumerOptions(isolation="read_committed")


@pytest.fixture(params=["one_node", "three_nodes"])
def client(request: pytest.FixtureRequest, java_agent: Agent, ottla_topic: str) -> Java:
    """The client, with a topic of two partitions."""
    broker: Broker = request.getfixturevalue(request.param)
    java = Java(broker.bootstrap_servers, java_agent)
    java.create_topic(ottla_topic, 2)
    return java


class Listed(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class DescribedByJava(NamedTuple):
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at_ms: int
    partitions: list[str]


class ProducerSeen(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


def texts(answer: list[bytes | None]) -> list[str]:
    return [(word or b"").decode() for word in answer]


def described(admin: JavaAdmin, transactional_id: str) -> DescribedByJava:
    words = texts(admin.connection.call("describe-transaction", transactional_id))
    coordinator_id, state, producer_id, epoch, timeout_ms, started_at_ms, *partitions = words
    return DescribedByJava(
        int(coordinator_id),
        state,
        int(producer_id),
        int(epoch),
        int(timeout_ms),
        int(started_at_ms),
        sorted(partitions),
    )


def producers(admin: JavaAdmin, partition: TopicPartition) -> list[ProducerSeen]:
    words = iter(texts(admin.connection.call("describe-producers", *partition)))
    return [
        ProducerSeen(*map(int, six))
        for six in zip(words, words, words, words, words, words, strict=True)
    ]


def listed(admin: JavaAdmin, pattern: str) -> list[Listed]:
    words = iter(texts(admin.connection.call("list-transactions", pattern)))
    return [
        Listed(name, int(producer_id), state)
        for name, producer_id, state in zip(words, words, words, strict=True)
    ]


def test_the_client_uses_transaction_version_2(java_agent: Agent, ottla_topic: str) -> None:
    """Partitions and offsets are registered by writing to them: nobody adds them to the transaction."""
    with recorded_broker() as recorder:
        client = Java(recorder.address, java_agent)
        client.create_topic(ottla_topic)
        client.send(ottla_topic, numbered(10))
        with (
            client.transactional_producer(ottla_topic) as producer,
            client.member(ottla_topic, ottla_topic) as member,
        ):
            records = member.read(10)
            recorder.seen.clear()
            producer.begin()
            producer.send(ottla_topic, numbered(5, start=10))
            producer.send_offsets({TopicPartition(ottla_topic, 0): records[-1].offset + 1}, member)
            producer.commit()
        versions = {
            request.__name__: recorder.versions_of(info_of(request).api_key)
            for request in (
                ProduceRequest,
                TxnOffsetCommitRequest,
                EndTxnRequest,
                AddPartitionsToTxnRequest,
                AddOffsetsToTxnRequest,
            )
        }
        assert min(versions["ProduceRequest"]) >= 12
        assert min(versions["TxnOffsetCommitRequest"]) >= 5
        assert min(versions["EndTxnRequest"]) >= 5
        assert versions["AddPartitionsToTxnRequest"] == set()
        assert versions["AddOffsetsToTxnRequest"] == set()
        wait_until_stable(
            recorder.address, TopicPartition(ottla_topic, 0), offsets_partition(ottla_topic)
        )


def test_the_epoch_rises_with_every_transaction(client: Java, ottla_topic: str) -> None:
    servers = client.bootstrap_servers
    with client.transactional_producer(ottla_topic) as producer:
        first = describe(servers, ottla_topic)
        for number in range(6):
            producer.begin()
            producer.send(ottla_topic, numbered(2))
            if number % 2:
                producer.abort()
            else:
                producer.commit()
            wait_until_at_rest(servers, ottla_topic)
            after = describe(servers, ottla_topic)
            assert after.producer_id == first.producer_id
            assert after.producer_epoch == first.producer_epoch + number + 1
    with JavaAdmin(client.agent, servers) as admin:
        (seen,) = producers(admin, TopicPartition(ottla_topic, 0))
        assert seen.producer_id == first.producer_id
        assert seen.producer_epoch == first.producer_epoch + 6
        assert seen.transaction_start_offset == -1
    leader = leader_address(servers, TopicPartition(ottla_topic, 0))
    epochs = [batch.header.producer_epoch for batch in batches_of(leader, ottla_topic)]
    # Data under an epoch, then its marker under the next one, which the next data has too.
    epoch = first.producer_epoch
    assert epochs == [epoch + (number + 1) // 2 for number in range(12)]


def test_a_producer_whose_transaction_timed_out_goes_on_after_its_abort(
    java_agent: Agent, ottla_topic: str
) -> None:
    """KAFKA-20090: the abort is told the next epoch, and nobody has to become the producer again."""
    with Broker(transaction_abort_timed_out_transaction_cleanup_interval_ms=20) as broker:
        servers = broker.bootstrap_servers
        client = Java(servers, java_agent)
        client.create_topic(ottla_topic)
        with client.transactional_producer(ottla_topic, 3000) as producer:
            first = describe(servers, ottla_topic)
            producer.begin()
            producer.send(ottla_topic, numbered(2))
            wait_until_at_rest(servers, ottla_topic)
            producer.abort()
            producer.begin()
            producer.send(ottla_topic, numbered(3, start=2))
            producer.commit()
            after = describe(servers, ottla_topic)
        assert after.producer_id == first.producer_id
        assert after.producer_epoch == first.producer_epoch + 2
        wait_until_stable(servers, TopicPartition(ottla_topic, 0))
        read = client.read(ottla_topic, 3, options=COMMITTED)
        assert [message.value for message in read] == [
            message.value for message in numbered(3, start=2)
        ]


def test_the_admin_client_tells_of_transactions_and_producers(
    client: Java, ottla_topic: str
) -> None:
    partition = TopicPartition(ottla_topic, 1)
    with (
        client.transactional_producer(ottla_topic, TIMEOUT_MS) as producer,
        JavaAdmin(client.agent, client.bootstrap_servers) as admin,
    ):
        began_ms = int(time.time() * 1000)
        (first,) = listed(admin, f"{ottla_topic}.*")
        assert (first.transactional_id, first.state) == (ottla_topic, "Empty")
        producer.begin()
        producer.send(ottla_topic, numbered(3), partition=1)

        (ongoing,) = listed(admin, f"{ottla_topic}.*")
        assert ongoing == Listed(ottla_topic, first.producer_id, "Ongoing")
        found = described(admin, ottla_topic)
        assert (found.state, found.producer_id) == ("Ongoing", first.producer_id)
        assert found.timeout_ms == TIMEOUT_MS
        assert began_ms - 1000 <= found.started_at_ms <= time.time() * 1000 + 1000
        assert found.partitions == [f"{ottla_topic}-1"]
        (seen,) = producers(admin, partition)
        assert (seen.producer_id, seen.producer_epoch) == (found.producer_id, found.producer_epoch)
        assert (seen.last_sequence, seen.transaction_start_offset) == (2, 0)
        producer.commit()
        wait_until_at_rest(client.bootstrap_servers, ottla_topic)

        assert described(admin, ottla_topic).state == "CompleteCommit"
        assert described(admin, ottla_topic).partitions == []
        (seen,) = producers(admin, partition)
        assert seen.transaction_start_offset == -1
        assert seen.coordinator_epoch >= 0
        assert listed(admin, "nobody.*") == []
        with pytest.raises(RefusedError) as caught:
            described(admin, "nobody")
        assert caught.value.error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_the_admin_client_aborts_a_transaction_on_a_partition(
    client: Java, ottla_topic: str
) -> None:
    """KIP-664: an operator ends what hangs on a partition with a marker of its own making."""
    servers, partition = client.bootstrap_servers, TopicPartition(ottla_topic, 0)
    with (
        client.transactional_producer(ottla_topic) as producer,
        JavaAdmin(client.agent, servers) as admin,
    ):
        producer.begin()
        producer.send(ottla_topic, numbered(3))
        client.send(ottla_topic, numbered(1, start=3))
        assert ends(servers, partition) == (0, 4)
        (seen,) = [one for one in producers(admin, partition) if one.transaction_start_offset == 0]
        admin.connection.call(
            "abort-transaction",
            *partition,
            seen.producer_id,
            seen.producer_epoch,
            max(seen.coordinator_epoch, 0),
        )
        assert ends(servers, partition) == (5, 5)
        # The coordinator does not know of it, and commits what is left: nothing.
        producer.commit()
        wait_until_at_rest(servers, ottla_topic)
    (last,) = client.send(ottla_topic, numbered(1))
    found = client.read(ottla_topic, 2, options=COMMITTED)
    assert [one.offset for one in found] == [3, last]


def test_the_admin_client_fences_producers(client: Java, ottla_topic: str) -> None:
    servers = client.bootstrap_servers
    with (
        client.transactional_producer(ottla_topic) as producer,
        JavaAdmin(client.agent, servers) as admin,
    ):
        producer.begin()
        producer.send(ottla_topic, numbered(3))
        admin.connection.call("fence", ottla_topic)
        with pytest.raises(RefusedError) as caught:
            producer.commit()
        assert caught.value.error in FENCED
        wait_for(
            "the transaction is aborted",
            lambda: ends(servers, TopicPartition(ottla_topic, 0)) == (4, 4),
        )
