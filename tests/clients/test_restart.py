"""After a restart of the broker any client finds what was there, and goes on."""

from __future__ import annotations

import pytest
from tests.clients.conftest import MakeDriver, RestartableBroker
from tests.clients.driver import ProducerOptions
from tests.clients.messages import MEGABYTE, SHAPES, numbered

from ottla.model import TopicPartition

START_MS = 1_700_000_000_000


def test_every_message_in_every_codec_is_there_after_a_restart(
    make_client: MakeDriver, restartable_broker: RestartableBroker, ottla_topic: str
) -> None:
    client = make_client(restartable_broker.bootstrap_servers)
    codecs = client.codecs()
    client.create_topic(ottla_topic, len(codecs))
    messages = [message for message in SHAPES.values() if client.cannot_send(message) is None]
    for partition, codec in enumerate(codecs):
        options = ProducerOptions(codec=codec, linger_ms=50, max_request_bytes=4 * MEGABYTE)
        client.send(ottla_topic, messages, partition, options)
    before = [client.read(ottla_topic, len(messages), 0, index) for index in range(len(codecs))]

    restartable_broker.restart()

    for partition, expected in enumerate(before):
        assert [one.content for one in expected] == messages
        assert client.read(ottla_topic, len(messages), 0, partition) == expected
        # From inside, too.
        assert client.read(ottla_topic, 3, 5, partition) == expected[5:8]
    assert client.send(ottla_topic, numbered(1)) == [len(messages)]


def test_timestamps_find_their_offsets_after_a_restart(
    make_client: MakeDriver, restartable_broker: RestartableBroker, ottla_topic: str
) -> None:
    client = make_client(restartable_broker.bootstrap_servers)
    if not client.sets_timestamps:
        pytest.skip(f"{client.name} does not set timestamps")
    messages = numbered(100, timestamp_ms=START_MS)
    for first in range(0, 100, 10):
        client.send(ottla_topic, messages[first : first + 10])

    restartable_broker.restart()

    partition = TopicPartition(ottla_topic, 0)
    with client.consumer() as consumer:
        assert consumer.bounds(partition) == (0, 100)
        assert consumer.offset_at(partition, START_MS + 55_000) == 55
        assert consumer.offset_at(partition, START_MS + 55_001) == 56
        assert consumer.offset_at(partition, START_MS + 99_001) is None
        consumer.assign({partition: 55})
        assert [one.timestamp_ms for one in consumer.read(45)] == [
            message.timestamp_ms for message in messages[55:]
        ]


def test_topics_keep_their_partitions_and_options_over_a_restart(
    make_admin_client: MakeDriver, restartable_broker: RestartableBroker, ottla_topic: str
) -> None:
    client = make_admin_client(restartable_broker.bootstrap_servers)
    partition = TopicPartition(ottla_topic, 0)
    with client.admin() as admin:
        admin.create_topic(ottla_topic, 3, {"retention.ms": "1000000"})
        admin.create_partitions(ottla_topic, 4)
        admin.set_config(ottla_topic, "retention.ms", "2000000")
        admin.create_topic(f"{ottla_topic}-gone")
        admin.delete_topic(f"{ottla_topic}-gone")
        client.send(ottla_topic, numbered(10))
        admin.delete_records(partition, 6)

    restartable_broker.restart()

    with client.admin() as admin, client.consumer() as consumer:
        # A consumer may have looked for the coordinator of its group, which makes this one.
        assert admin.topics() - {"__consumer_offsets"} == {ottla_topic}
        assert admin.partition_count(ottla_topic) == 4
        assert admin.configs(ottla_topic)["retention.ms"] == "2000000"
        assert consumer.bounds(partition) == (6, 10)


def test_a_producer_and_a_consumer_live_through_a_restart(
    make_client: MakeDriver, restartable_broker: RestartableBroker, ottla_topic: str
) -> None:
    client = make_client(restartable_broker.bootstrap_servers)
    if not client.keeps_connections:
        pytest.skip(f"{client.name} is a process per call")
    with client.producer() as producer, client.consumer() as consumer:
        consumer_at = TopicPartition(ottla_topic, 0)
        assert producer.send(ottla_topic, numbered(10)) == list(range(10))
        consumer.assign({consumer_at: 0})
        received = consumer.read(10)

        restartable_broker.restart()

        assert producer.send(ottla_topic, numbered(10, start=10)) == list(range(10, 20))
        received += consumer.read(10)
        assert [one.content for one in received] == numbered(20)
        assert consumer.bounds(consumer_at) == (0, 20)
