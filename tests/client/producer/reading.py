"""What is in a topic, read without the client under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka
from tests.clients.broker_side import Batch, batches_of

from ottla.records.record import Record


def records_of(servers: str, topic: str, partition: int = 0) -> list[Record]:
    """All records of a partition, those of aborted transactions and markers included."""
    found: list[Record] = []
    while batches := batches_of(servers.split(",")[0], topic, partition, len_of(found)):
        found += [record for batch in batches for record in batch.records]
    return found


def len_of(found: list[Record]) -> int:
    return found[-1].offset + 1 if found else 0


def values_of(servers: str, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in records_of(servers, topic, partition)]


def headers_of(servers: str, topic: str, partition: int = 0) -> list[Batch]:
    return batches_of(servers.split(",")[0], topic, partition)


def committed_values(
    servers: str, topic: str, partitions: int, is_enough: Callable[[list[bytes]], bool]
) -> list[bytes]:
    """What a stranger with read_committed sees of all partitions, up to the last stable offset."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "stranger",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign(
            [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
        )
        values: list[bytes] = []
        ended: set[int] = set()
        while len(ended) < partitions and not is_enough(values):
            message: Any = consumer.poll(10.0)
            assert message is not None, "nothing came"
            if message.error() is None:
                values.append(message.value())
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError(message.error())
        return values
    finally:
        consumer.close()


def all_committed(servers: str, topic: str, partitions: int) -> list[bytes]:
    return committed_values(servers, topic, partitions, lambda _: False)
