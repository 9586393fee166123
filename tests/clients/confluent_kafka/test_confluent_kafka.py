"""What is particular to confluent-kafka."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.clients.broker_side import batches_of
from tests.clients.confluent_kafka.driver import ConfluentKafka
from tests.clients.conftest import RestartableBroker
from tests.clients.messages import numbered

from ottla import Broker
from ottla.model import TopicPartition

START_MS = 1_700_000_000_000


@pytest.fixture
def client(ottla_broker: Broker) -> ConfluentKafka:
    return ConfluentKafka(ottla_broker.bootstrap_servers)


@pytest.fixture
def admin(client: ConfluentKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": client.bootstrap_servers})


def produce_all(producer: confluent_kafka.Producer, topic: str, start: int, count: int) -> None:
    for message in numbered(count, start=start):
        producer.produce(topic, message.value, message.key, 0)
    assert producer.flush(20) == 0


def test_an_idempotent_producer_goes_on_after_a_restart(
    restartable_broker: RestartableBroker, ottla_topic: str
) -> None:
    servers = restartable_broker.bootstrap_servers
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
    )
    produce_all(producer, ottla_topic, 0, 50)
    restartable_broker.restart()
    produce_all(producer, ottla_topic, 50, 50)
    batches = batches_of(servers, ottla_topic)
    values = [record.value for batch in batches for record in batch.records]
    assert values == [message.value for message in numbered(100)]
    assert len({batch.header.producer_id for batch in batches}) == 1
    assert batches[0].header.producer_id >= 0
    # The sequence goes on where it was: to the broker it is the same producer.
    assert batches[-1].header.last_sequence == 99


def test_a_consumer_closes_at_once_without_a_group(
    client: ConfluentKafka, ottla_topic: str
) -> None:
    client.send(ottla_topic, numbered(3))
    consumer = client.consumer()
    consumer.assign({TopicPartition(ottla_topic, 0): 0})
    consumer.read(3)
    began_at = time.monotonic()
    consumer.close()
    assert time.monotonic() - began_at < 5


# librdkafka counts from the end with offsets below this.
TAIL = -2000


@pytest.mark.parametrize(
    ("start", "expected"), [(confluent_kafka.OFFSET_BEGINNING, 0), (TAIL - 3, 7)]
)
def test_symbolic_offsets_are_found(
    client: ConfluentKafka, ottla_topic: str, start: int, expected: int
) -> None:
    client.send(ottla_topic, numbered(10))
    (first, *_) = client.read(ottla_topic, 1, start)
    assert first.offset == expected


def test_offsets_are_listed_by_earliest_latest_time_and_largest_time(
    client: ConfluentKafka, admin: AdminClient, ottla_topic: str
) -> None:
    messages = numbered(5, timestamp_ms=START_MS)
    client.send(ottla_topic, [*messages[:2], messages[4], *messages[2:4]])
    partition = confluent_kafka.TopicPartition(ottla_topic, 0)
    specs: Any = OffsetSpec  # whose functions have no types
    found = {}
    for name, spec in {
        "earliest": specs.earliest(),
        "latest": specs.latest(),
        "time": specs.for_timestamp(START_MS + 1000),
        "largest": specs.max_timestamp(),
    }.items():
        (future,) = admin.list_offsets({partition: spec}).values()
        found[name] = future.result(20).offset
    assert found == {"earliest": 0, "latest": 5, "time": 1, "largest": 2}


def test_topics_and_cluster_are_described(
    client: ConfluentKafka, admin: AdminClient, ottla_topic: str
) -> None:
    client.create_topic(ottla_topic, partitions=3)
    (future,) = admin.describe_topics(TopicCollection([ottla_topic])).values()
    described = future.result(20)
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert all(partition.leader.id == 1 for partition in described.partitions)
    assert str(described.topic_id)
    cluster = admin.describe_cluster().result(20)
    assert [node.id for node in cluster.nodes] == [1]
    assert cluster.controller.id == 1
    assert cluster.cluster_id


def test_list_options_grow_and_shrink(admin: AdminClient, ottla_topic: str) -> None:
    new = NewTopic(ottla_topic, 1, 1, config={"cleanup.policy": "delete"})
    admin.create_topics([new])[ottla_topic].result(20)

    def change(operation: AlterConfigOpType, value: str) -> str:
        entry = ConfigEntry("cleanup.policy", value, incremental_operation=operation)
        changed = ConfigResource(ResourceType.TOPIC, ottla_topic, incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([changed]).values()
        future.result(20)
        (described,) = admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, ottla_topic)]
        ).values()
        return str(described.result(20)["cleanup.policy"].value)

    assert change(AlterConfigOpType.APPEND, "compact") == "delete,compact"
    assert change(AlterConfigOpType.SUBTRACT, "delete") == "compact"
    assert change(AlterConfigOpType.DELETE, "") == "delete"


def test_validation_creates_nothing(admin: AdminClient, ottla_topic: str) -> None:
    new = NewTopic(ottla_topic, 2, 1)
    admin.create_topics([new], validate_only=True)[ottla_topic].result(20)
    assert ottla_topic not in admin.list_topics(timeout=20).topics
    wrong = NewTopic(ottla_topic, 2, 1, config={"retention.ms": "long"})
    with pytest.raises(KafkaException):
        admin.create_topics([wrong], validate_only=True)[ottla_topic].result(20)
