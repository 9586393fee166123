"""What the broker keeps and sends, seen without any client library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.clients.transactions_seen import leader_address

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import BatchHeader, crc_matches, read_batch, split_batches
from ottla.records.record import Record
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

CREATE_TOPICS_VERSION = 5
FETCH_VERSION = 12
FETCH_BYTES = 50 << 20


class Batch(NamedTuple):
    """A record batch as it came over the wire."""

    header: BatchHeader
    records: list[Record]


def batches_of(
    bootstrap_servers: str, topic: str, partition: int = 0, offset: int = 0
) -> list[Batch]:
    """The batches of a partition from the one with this offset on."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
                    )
                ],
            )
        ],
    )
    leader = leader_address(bootstrap_servers, TopicPartition(topic, partition))
    with RawConnection(leader) as connection:
        answer = connection.call(request, FetchResponse, FETCH_VERSION)
    found = answer.responses[0].partitions[0]
    assert found.error_code == ErrorCode.NONE
    data = bytes(found.records)
    batches = []
    for position, header in split_batches(data):
        assert crc_matches(data, position, header)
        batches.append(Batch(header, read_batch(data, position)))
    return batches


def create_topic(
    bootstrap_servers: str, topic: str, partitions: int, configs: Mapping[str, str]
) -> None:
    """Creates a topic for a client that cannot."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
                ],
            )
        ]
    )
    with RawConnection(bootstrap_servers.split(",")[0]) as connection:
        answer = connection.call(request, CreateTopicsResponse, CREATE_TOPICS_VERSION)
    assert answer.topics[0].error_code == ErrorCode.NONE
