"""What is in a topic, read without the client under test."""

from __future__ import annotations

from typing import Any

import confluent_kafka
from tests.clients.broker_side import FETCH_BYTES, FETCH_VERSION, Batch, batches_of

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import read_batch, split_batches
from ottla.records.record import Record
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic


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


def all_committed(servers: str, topic: str, partitions: int) -> list[bytes | None]:
    """The values that a reader with read_committed sees, partition after partition."""
    return [
        value
        for number in range(partitions)
        for value in committed_of(servers.split(",")[0], topic, number)
    ]


def committed_of(server: str, topic: str, partition: int) -> list[bytes | None]:
    """What Kafka's rules let a reader see of a fetched partition: no markers, nothing of the aborted list."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=0, partition_max_bytes=FETCH_BYTES
                    )
                ],
            )
        ],
    )
    with RawConnection(server) as connection:
        answer = connection.call(request, FetchResponse, FETCH_VERSION)
    found = answer.responses[0].partitions[0]
    assert found.error_code == ErrorCode.NONE
    assert found.last_stable_offset == found.high_watermark, "a transaction is open"
    data = bytes(found.records)
    aborted = sorted(found.aborted_transactions or [], key=lambda each: each.first_offset)
    open_aborted: set[int] = set()
    values: list[bytes | None] = []
    for position, header in split_batches(data):
        while aborted and aborted[0].first_offset <= header.last_offset:
            open_aborted.add(aborted.pop(0).producer_id)
        if header.is_control:
            open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            values += [record.value for record in read_batch(data, position)]
    return values


def seen_by_confluent(servers: str, topic: str, partitions: int) -> list[bytes]:
    """The same by a stranger's consumer."""
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
        while len(ended) < partitions:
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


def has_its_memory_back(producer: ottla.Producer) -> bool:
    """Records are answered a moment before their memory is given back."""
    metrics = producer.metrics()
    return metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
