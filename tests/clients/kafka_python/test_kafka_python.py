"""What is particular to kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from tests.clients.broker_side import batches_of
from tests.clients.kafka_python.driver import KafkaPython
from tests.clients.messages import numbered

from ottla import Broker

START_MS = 1_700_000_000_000


@pytest.fixture
def client(ottla_broker: Broker) -> KafkaPython:
    return KafkaPython(ottla_broker.bootstrap_servers)


@pytest.fixture
def admin(ottla_broker: Broker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers)
    yield client
    client.close()


def test_positions_follow_seeks_and_pauses(client: KafkaPython, ottla_topic: str) -> None:
    client.send(ottla_topic, numbered(10))
    partition = kafka.TopicPartition(ottla_topic, 0)
    with kafka.KafkaConsumer(
        bootstrap_servers=client.bootstrap_servers, group_id=None, consumer_timeout_ms=5000
    ) as consumer:
        consumer.assign([partition])
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 10
        consumer.seek_to_beginning(partition)
        assert consumer.position(partition) == 0
        assert next(consumer).offset == 0
        assert consumer.highwater(partition) == 10
        consumer.pause(partition)
        assert consumer.poll(timeout_ms=200) == {}
        consumer.resume(partition)
        assert next(consumer).offset == 1


def test_offsets_are_listed_by_earliest_latest_and_largest_time(
    client: KafkaPython, admin: Any, ottla_topic: str
) -> None:
    messages = numbered(5, timestamp_ms=START_MS)
    client.send(ottla_topic, [*messages[:2], messages[4], *messages[2:4]])
    partition = kafka.TopicPartition(ottla_topic, 0)
    found = [
        admin.list_partition_offsets({partition: spec})[partition].offset
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP)
    ]
    assert found == [0, 5, 2]


def test_the_rest_of_the_admin_client_is_answered(
    client: KafkaPython, admin: Any, ottla_topic: str
) -> None:
    client.create_topic(ottla_topic, partitions=3)
    client.send(ottla_topic, numbered(5))
    described = admin.describe_topic_partitions([ottla_topic])["topics"][0]
    assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1, 2]
    assert admin.list_partition_reassignments() == {}
    assert [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]] == [1]
    sizes = {
        (topic["name"], partition["partition_index"]): partition["partition_size"]
        for broker in admin.describe_log_dirs()
        for log_dir in broker["log_dirs"]
        for topic in log_dir["topics"]
        for partition in topic["partitions"]
    }
    batches = batches_of(client.bootstrap_servers, ottla_topic)
    assert sizes[ottla_topic, 0] == sum(batch.header.size_bytes for batch in batches)
    # Partitions that nobody has used exist as well.
    assert sizes[ottla_topic, 1] == 0


def test_a_broker_option_is_altered_and_reset(admin: Any) -> None:
    def value() -> str:
        resource = ConfigResource(ConfigResourceType.BROKER, "1")
        described = admin.describe_configs([resource], config_filter="all")
        return str(described["broker"]["1"]["log.flush.interval.messages"]["value"])

    default = value()
    resource = ConfigResource(
        ConfigResourceType.BROKER, "1", {"log.flush.interval.messages": "1000"}
    )
    admin.alter_configs([resource])
    assert value() == "1000"
    admin.reset_configs(
        [ConfigResource(ConfigResourceType.BROKER, "1", ["log.flush.interval.messages"])]
    )
    assert value() == default


def test_the_admin_client_replaces_all_options_the_old_way(
    client: KafkaPython, admin: Any, ottla_topic: str
) -> None:
    client.create_topic(ottla_topic, configs={"retention.ms": "1000000"})
    resource = ConfigResource(ConfigResourceType.TOPIC, ottla_topic, {"segment.bytes": "1048576"})
    admin.alter_configs([resource], incremental=False)
    with client.admin() as driver:
        configs = driver.configs(ottla_topic)
    assert (configs["segment.bytes"], configs["retention.ms"]) == ("1048576", "1000000")
