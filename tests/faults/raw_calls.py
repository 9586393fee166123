"""What the fault tests ask of a broker, in Kafka's messages and over a raw connection."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, crc_matches, read_batch, split_batches
from ottla.records.record import Record
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE_VERSION, FETCH_VERSION = 9, 12
TIMESTAMP_MS = 1_700_000_000_000
TOPIC_RESOURCE = 2
SET = 0


class TopicSeen(NamedTuple):
    topic_id: uuid.UUID
    partition_count: int


class RecordSeen(NamedTuple):
    offset: int
    value: bytes


def create_topic(
    connection: RawConnection,
    name: str,
    partition_count: int = 1,
    config: Mapping[str, str] | None = None,
) -> CreatableTopicResult:
    configs = [CreatableTopicConfig(name=key, value=text) for key, text in (config or {}).items()]
    topic = CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=-1,
        assignments=[],
        configs=configs,
    )
    answer = connection.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    result: CreatableTopicResult = answer.topics[0]
    return result


def delete_topic(connection: RawConnection, name: str) -> ErrorCode:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
    return ErrorCode(connection.call(request, DeleteTopicsResponse, 6).responses[0].error_code)


def set_topic_option(connection: RawConnection, topic: str, name: str, value: str) -> ErrorCode:
    change = AlterableConfig(name=name, config_operation=SET, value=value)
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = connection.call(request, IncrementalAlterConfigsResponse, 1)
    return ErrorCode(answer.responses[0].error_code)


def topic_option(connection: RawConnection, topic: str, name: str) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
    )
    answer = connection.call(
        DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 4
    )
    (option,) = answer.results[0].configs
    value: str | None = option.value
    return value


def topics_of(connection: RawConnection) -> dict[str, TopicSeen]:
    answer = connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
    return {topic.name: TopicSeen(topic.topic_id, len(topic.partitions)) for topic in answer.topics}


def new_producer_id(connection: RawConnection) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = connection.call(request, InitProducerIdResponse, 4)
    assert answer.error_code == ErrorCode.NONE
    producer_id: int = answer.producer_id
    return producer_id


def batch_of(values: list[bytes], producer_id: int, first_sequence: int) -> bytes:
    records = [Record(number, TIMESTAMP_MS, b"k", value) for number, value in enumerate(values)]
    return build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=first_sequence,
    )


def produce_request(topic: str, partition: int, batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def answer_of(response: ProduceResponse) -> tuple[ErrorCode, int]:
    """The error and the base offset of a produce response with one partition."""
    partition = response.responses[0].partition_responses[0]
    return ErrorCode(partition.error_code), partition.base_offset


def produce(
    connection: RawConnection, topic: str, partition: int, batch: bytes
) -> tuple[ErrorCode, int]:
    request = produce_request(topic, partition, batch)
    return answer_of(connection.call(request, ProduceResponse, PRODUCE_VERSION))


def read_partition(connection: RawConnection, topic: str, partition: int) -> list[RecordSeen]:
    """Every record from offset 0 on; checks each batch's checksum and that no offset is left out."""
    seen: list[RecordSeen] = []
    while True:
        asked = FetchPartition(
            partition=partition, fetch_offset=len(seen), partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[asked])]
        )
        answer = connection.call(request, FetchResponse, FETCH_VERSION)
        data = answer.responses[0].partitions[0]
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
        if not data.records:
            assert data.high_watermark == len(seen)
            return seen
        for position, header in split_batches(data.records):
            assert crc_matches(data.records, position, header)
            assert header.base_offset == len(seen), f"a hole before {header.base_offset}"
            for record in read_batch(data.records, position):
                assert record.offset == len(seen)
                seen.append(RecordSeen(record.offset, record.value or b""))
            assert header.last_offset + 1 == len(seen)
