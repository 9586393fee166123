"""What the guide says of the broker's clock: these follow it, and those do not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import kafka
import pytest

import ottla
from ottla.admin import NewTopic
from ottla.testing import Broker, wait_for

SECONDS = 20.0


@pytest.fixture(scope="module")
def module_broker() -> Iterator[Broker]:
    options = {
        "log.retention.ms": -1,
        "offsets.retention.minutes": 60,
        "producer.id.expiration.ms": 3_600_000,
        "connections.max.idle.ms": 600_000,
    }
    with Broker(options) as broker:
        yield broker


@pytest.fixture
def broker(module_broker: Broker) -> Iterator[Broker]:
    yield module_broker
    module_broker.reset()


def send(broker: Broker, topic: str, *values: bytes, key: bytes | None = None) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, key).result(SECONDS)


def create(broker: Broker, topic: str, **configs: str) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topics([NewTopic(topic, configs=named)])


def test_committed_offsets_of_an_empty_group_expire(broker: Broker, ottla_topic: str) -> None:
    send(broker, ottla_topic, b"1")
    consumer = kafka.KafkaConsumer(
        ottla_topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=ottla_topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    wait_for(lambda: consumer.poll(100), what="the record")
    consumer.commit()
    consumer.close()
    broker.clock.advance("30m")
    assert broker.lag(ottla_topic) == {ottla.TopicPartition(ottla_topic, 0): 0}
    broker.clock.advance("31m")
    assert broker.lag(ottla_topic) == {}


def test_a_producer_that_was_idle_for_too_long_is_forgotten(
    broker: Broker, ottla_topic: str
) -> None:
    send(broker, ottla_topic, b"1")
    partition = ottla.TopicPartition(ottla_topic, 0)
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert len(admin.describe_producers([partition])[partition]) == 1
        broker.clock.advance("61m")
        assert len(admin.describe_producers([partition])[partition]) == 0


def test_compaction_waits_for_its_lag(broker: Broker, ottla_topic: str) -> None:
    create(
        broker,
        ottla_topic,
        cleanup_policy="compact",
        min_compaction_lag_ms="600000",
        min_cleanable_dirty_ratio="0.01",
        segment_ms="60000",
        # Segments age by the timestamps of their records, which producers take from their own clocks.
        message_timestamp_type="LogAppendTime",
    )
    send(broker, ottla_topic, b"old", b"new", key=b"k")
    broker.clock.advance("5m")
    send(broker, ottla_topic, b"x", key=b"other")  # which closes the segment before
    assert [record.value for record in broker.records(ottla_topic)] == [b"old", b"new", b"x"]
    broker.clock.advance("10m")
    assert [record.value for record in broker.records(ottla_topic)] == [b"new", b"x"]


def test_deleted_segments_leave_the_disk_after_their_delay(
    broker: Broker, ottla_topic: str
) -> None:
    create(broker, ottla_topic, retention_ms="60000", file_delete_delay_ms="600000")
    send(broker, ottla_topic, b"1")

    def deleted_files() -> list[str]:
        folder = os.path.join(broker.data_dir, f"{ottla_topic}-0")
        return [name for name in os.listdir(folder) if name.endswith(".deleted")]

    broker.clock.advance("2m")
    assert broker.records(ottla_topic) == []
    assert deleted_files()
    broker.clock.advance("11m")
    wait_for(lambda: not deleted_files())


def test_a_new_group_waits_for_more_members_by_the_clock(ottla_topic: str) -> None:
    with Broker({"group.initial.rebalance.delay.ms": 60_000}) as broker:
        send(broker, ottla_topic, b"1")
        broker.clock.freeze()
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([ottla_topic])
        wait_for(lambda: (consumer.poll(0.05), broker.requests("JoinGroup"))[1])
        assert consumer.poll(0.5) is None
        broker.clock.advance("61s")
        message = wait_for(lambda: consumer.poll(0.1), what="the record")
        assert message is not None
        assert message.value() == b"1"
        consumer.close()


def test_timestamps_of_records_are_those_of_the_clock(broker: Broker, ottla_topic: str) -> None:
    create(broker, ottla_topic, message_timestamp_type="LogAppendTime")
    broker.clock.freeze()
    broker.clock.set("2001-02-03T04:05:06+00:00")
    send(broker, ottla_topic, b"1")
    assert broker.records(ottla_topic)[0].timestamp_ms == 981_173_106_000


def test_fetches_do_not_wait_for_the_clock_and_connections_do_not_age_by_it(
    broker: Broker, ottla_topic: str
) -> None:
    send(broker, ottla_topic, b"1")
    with (
        ottla.Consumer(
            bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer,
        ThreadPoolExecutor(1) as threads,
    ):
        consumer.assign([ottla.TopicPartition(ottla_topic, 0)])
        wait_for(lambda: consumer.poll(0.1))
        before = broker._call(lambda running: running.server.connection_count)
        broker.clock.freeze()
        # Its long poll ends after fetch.max.wait.ms of real time.
        mark = len(broker.requests("Fetch", topic=ottla_topic))
        polling = threads.submit(lambda: [consumer.poll(0.1) for _ in range(15)])
        wait_for(lambda: len(broker.requests("Fetch", topic=ottla_topic)) > mark + 1)
        polling.result(SECONDS)
        broker.clock.advance("1h")
        time.sleep(0.05)
        assert broker._call(lambda running: running.server.connection_count) >= before
