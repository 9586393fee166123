"""What a topic's options do to messages, as any client sees it."""

from __future__ import annotations

import time

import pytest
from tests.clients.broker_side import batches_of
from tests.clients.driver import Driver, ProducerOptions
from tests.clients.messages import MEGABYTE, SHAPES, Message, numbered

from ottla.model import TopicPartition
from ottla.records.batch import TimestampType
from ottla.records.compression import Codec

COMPRESSION_TYPES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@pytest.mark.parametrize("compression_type", COMPRESSION_TYPES)
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_topic_with_a_codec_of_its_own_stores_in_that(
    client: Driver, ottla_topic: str, compression_type: str, codec: str
) -> None:
    client.create_topic(ottla_topic, configs={"compression.type": compression_type})
    messages = [
        *(SHAPES[shape] for shape in ("every-byte", "null-value", "repeated-headers", "empty-key")),
        *numbered(10),
        SHAPES["megabyte-of-zeros"],
    ]
    options = ProducerOptions(codec=codec, linger_ms=100, max_request_bytes=4 * MEGABYTE)
    assert client.send(ottla_topic, messages, options=options) == list(range(len(messages)))
    assert [one.content for one in client.read(ottla_topic, len(messages))] == messages
    (inside,) = client.read(ottla_topic, 1, offset=7)
    assert (inside.offset, inside.content) == (7, messages[7])
    batches = batches_of(client.bootstrap_servers, ottla_topic)
    assert {batch.header.codec for batch in batches} == {COMPRESSION_TYPES[compression_type]}


def test_log_append_time_is_the_brokers(client: Driver, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, configs={"message.timestamp.type": "LogAppendTime"})
    old = Message(b"value", timestamp_ms=1_000_000 if client.sets_timestamps else None)
    before_ms = int(time.time() * 1000)
    client.send(ottla_topic, [old] * 3, options=ProducerOptions(linger_ms=100))
    after_ms = int(time.time() * 1000)
    received = client.read(ottla_topic, 3)
    assert all(before_ms <= one.timestamp_ms <= after_ms for one in received)
    for batch in batches_of(client.bootstrap_servers, ottla_topic):
        assert batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    with client.consumer() as consumer:
        assert consumer.offset_at(TopicPartition(ottla_topic, 0), before_ms) == 0
        assert consumer.offset_at(TopicPartition(ottla_topic, 0), after_ms + 1) is None


def test_a_compacted_topic_takes_tombstones(client: Driver, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, configs={"cleanup.policy": "compact"})
    messages = [Message(b"value", b"key"), Message(None, b"key")]
    assert client.send(ottla_topic, messages) == [0, 1]
    assert [one.content for one in client.read(ottla_topic, 2)] == messages
