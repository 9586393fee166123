"""What kafka-python's admin client says of transactions, and does to them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from kafka.admin import KafkaAdminClient
from kafka.admin._transactions import AbortTransactionSpec, TransactionState
from tests.clients.kafka_python.driver import KafkaPython
from tests.clients.messages import numbered
from tests.clients.transactions_seen import ends, wait_until_at_rest

from ottla import Broker
from ottla.model import TopicPartition


@pytest.fixture
def client(three_nodes: Broker, ottla_topic: str) -> KafkaPython:
    client = KafkaPython(three_nodes.bootstrap_servers)
    client.create_topic(ottla_topic)
    return client


@pytest.fixture
def admin(client: KafkaPython) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=client.bootstrap_servers)
    yield admin
    admin.close()


def test_transactions_are_listed_described_and_aborted(
    client: KafkaPython, admin: Any, ottla_topic: str
) -> None:
    servers, partition = client.bootstrap_servers, kafka.TopicPartition(ottla_topic, 0)

    def listed() -> list[TransactionState]:
        return [
            one.state
            for found in admin.list_transactions().values()
            for one in found
            if one.transactional_id == ottla_topic
        ]

    with client.transactional_producer(ottla_topic, 60_000) as producer:
        assert listed() == [TransactionState.EMPTY]
        producer.begin()
        producer.send(ottla_topic, numbered(3))
        assert listed() == [TransactionState.ONGOING]
        described = admin.describe_transactions([ottla_topic])[ottla_topic]
        assert described.state is TransactionState.ONGOING
        assert described.transaction_timeout_ms == 60_000
        assert described.topic_partitions == {partition}
        (seen,) = admin.describe_producers([partition])[partition].active_producers
        assert (seen.producer_id, seen.producer_epoch) == (
            described.producer_id,
            described.producer_epoch,
        )
        assert seen.current_transaction_start_offset == 0
        hanging = admin.find_hanging_transactions(max_transaction_timeout_ms=0)
        assert ottla_topic not in [one["transactional_id"] for one in hanging]
        assert ends(servers, TopicPartition(ottla_topic, 0)) == (0, 3)
        admin.abort_transaction(
            AbortTransactionSpec(partition, seen.producer_id, seen.producer_epoch)
        )
        assert ends(servers, TopicPartition(ottla_topic, 0)) == (4, 4)
        producer.abort()
        wait_until_at_rest(servers, ottla_topic)
        assert listed() == [TransactionState.COMPLETE_ABORT]
