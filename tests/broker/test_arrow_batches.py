"""Batches that were made of Arrow columns are accepted, and what is fetched becomes the same columns."""

from typing import Any

import confluent_kafka
import pytest
from tests.broker.requests import create, fetch, new_producer_id, produce
from tests.records.stamping import with_producer

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, increment_sequence
from ottla.records.compression import Codec

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
arrow = pytest.importorskip("ottla.records.arrow")

PARTITION_COUNT = 3
ROW_COUNT = 2000


def orders() -> Any:
    """Keys, tombstones, headers and times, some of each null."""
    return pa.record_batch(
        {
            "key": pa.array([b"%d" % n if n % 5 else None for n in range(ROW_COUNT)]),
            "value": pa.array([b"v" * (n % 90) if n % 7 else None for n in range(ROW_COUNT)]),
            "headers": pa.array(
                [[{"key": "n", "value": b"%d" % n}] if n % 3 else None for n in range(ROW_COUNT)],
                arrow.SCHEMA.field("headers").type,
            ),
            "timestamp": pa.array(
                [1_700_000_000_000_000 + n * 1000 for n in range(ROW_COUNT)],
                arrow.SCHEMA.field("timestamp").type,
            ),
        }
    )


def send(connection: RawConnection, topic: str, codec: Codec) -> None:
    """Encode the columns and produce them as an idempotent producer does."""
    producer_id = new_producer_id(connection)
    encoder = arrow.ColumnsEncoder(
        lambda _: PARTITION_COUNT, topic=topic, codec=codec, batch_size_bytes=16_384
    )
    sequences = dict.fromkeys(range(PARTITION_COUNT), 0)
    for batch in [*encoder.append(orders()), *encoder.finish()]:
        sequence = sequences[batch.partition]
        stamped = with_producer(
            batch.data,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            flags=BatchFlag.NONE,
        )
        answer = produce(connection, topic, stamped, partition=batch.partition)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, sequence)
        sequences[batch.partition] = increment_sequence(sequence, batch.record_count)
    assert sum(sequences.values()) == ROW_COUNT


@pytest.mark.parametrize("codec", list(Codec))
def test_columns_go_through_the_broker_unchanged(
    broker: ottla.Broker, connection: RawConnection, topic: str, codec: Codec
) -> None:
    create(connection, topic, partitions=PARTITION_COUNT)
    send(connection, topic, codec)
    tables = []
    for partition in range(PARTITION_COUNT):
        fetched = fetch(connection, topic, 0, partition=partition)
        decoded = arrow.decode_batches(fetched.records, topic, partition)
        assert decoded.next_offset == fetched.high_watermark
        table = pa.Table.from_batches(decoded.batches)
        assert table["offset"].to_pylist() == list(range(fetched.high_watermark))
        tables.append(table)
    names = ["key", "value", "headers", "timestamp"]
    found = pa.concat_tables(tables).sort_by("timestamp").select(names)
    expected = pa.Table.from_batches([orders()])
    assert found.to_pylist() == expected.to_pylist()


def test_librdkafka_reads_what_was_made_of_columns(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic, partitions=PARTITION_COUNT)
    send(connection, topic, Codec.NONE)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(PARTITION_COUNT)])
    found: list[Any] = []
    while len(found) < ROW_COUNT:
        found += consumer.consume(ROW_COUNT - len(found), timeout=10)
    consumer.close()
    assert [message.error() for message in found] == [None] * ROW_COUNT
    rows = {message.timestamp()[1]: message for message in found}
    for row in orders().to_pylist():
        message = rows[round(row["timestamp"].timestamp() * 1000)]
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        assert (message.key(), message.value()) == (row["key"], row["value"])
        assert (message.headers() or []) == headers
