"""Requests that the benchmarks send: encoded once, in versions that all peers speak."""

from __future__ import annotations

import time

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.compile import decode_message
from ottla.wire.framing import SIZE_BYTES, frame_request
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE_VERSION = 9
FETCH_VERSION = 12  # the last one that names topics by name
METADATA_VERSION = 9
LIST_OFFSETS_VERSION = 5
CREATE_TOPICS_VERSION = 5
DELETE_TOPICS_VERSION = 4
CLIENT_ID = "bench"
# Records of long ago would be removed by retention while they are measured.
TIMESTAMP_MS = time.time_ns() // 1_000_000
LATEST = -1
FLEXIBLE_HEADER_BYTES = 5
# A broker that has just started may refuse these for a moment.
TRY_LIMIT = 500
TRY_SECONDS = 0.005


class RefusedError(Exception):
    """The broker answered, but not as a benchmark can go on with."""


def batch_of(record_count: int, value_bytes: int) -> bytes:
    value = b"x" * value_bytes
    return build_batch([Record(i, TIMESTAMP_MS + i, None, value) for i in range(record_count)])


def produce_frame(topic: str, record_count: int, value_bytes: int, partition: int = 0) -> bytes:
    """One batch of records without keys, acknowledged by all replicas."""
    records = batch_of(record_count, value_bytes)
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    return frame_request(request, PRODUCE_VERSION, 1, CLIENT_ID)


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """Asks one partition for a number of bytes, outside of a fetch session."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return frame_request(request, FETCH_VERSION, 1, CLIENT_ID)


def append_once(connection: RawConnection, frame: bytes) -> int:
    """Sends a produce request and waits; how long the answer is, with its size field."""
    connection.socket.sendall(frame)
    answer = connection.receive_frame()
    response = decode_message(ProduceResponse, PRODUCE_VERSION, answer, FLEXIBLE_HEADER_BYTES)
    code = response.responses[0].partition_responses[0].error_code
    if code != 0:
        raise RefusedError(f"a produce request was answered with error {code}")
    return len(answer) + SIZE_BYTES


def append_first(bootstrap_server: str, frame: bytes) -> int:
    """As `append_once`, to a new topic: its leader may know of it a moment later than the metadata."""
    with RawConnection(bootstrap_server) as connection:
        for _ in range(TRY_LIMIT):
            try:
                return append_once(connection, frame)
            except RefusedError:
                time.sleep(TRY_SECONDS)
        return append_once(connection, frame)


def fetch_once(connection: RawConnection, frame: bytes, expected_bytes: int) -> int:
    """Sends a fetch request and waits; how long the answer is, with its size field."""
    connection.socket.sendall(frame)
    answer = connection.receive_frame()
    response = decode_message(FetchResponse, FETCH_VERSION, answer, FLEXIBLE_HEADER_BYTES)
    partition = response.responses[0].partitions[0]
    found_bytes = len(partition.records or b"")
    if partition.error_code != 0 or found_bytes != expected_bytes:
        raise RefusedError(
            f"a fetch was answered with error {partition.error_code} and {found_bytes} bytes, "
            f"not {expected_bytes}"
        )
    return len(answer) + SIZE_BYTES


def create_topic(bootstrap_server: str, topic: str) -> None:
    """Has the broker create a topic, as clients do, by asking for its metadata."""
    with RawConnection(bootstrap_server) as connection:
        for _ in range(TRY_LIMIT):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            response = connection.call(request, MetadataResponse, METADATA_VERSION)
            (found,) = response.topics
            if found.error_code == 0 and all(each.leader_id >= 0 for each in found.partitions):
                return
            time.sleep(TRY_SECONDS)
    raise RefusedError(f"topic {topic} was not created: error {found.error_code}")


def create_wide_topic(bootstrap_server: str, topic: str, partition_count: int) -> None:
    """As `create_topic`, with a number of partitions of its own."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=partition_count,
        replication_factor=1,
        assignments=[],
        configs=[],
    )
    with RawConnection(bootstrap_server) as connection:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        answer = connection.call(request, CreateTopicsResponse, CREATE_TOPICS_VERSION)
    if answer.topics[0].error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise RefusedError(f"topic {topic} was not created: error {answer.topics[0].error_code}")
    create_topic(bootstrap_server, topic)


def delete_topic(bootstrap_server: str, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    with RawConnection(bootstrap_server) as connection:
        connection.call(request, DeleteTopicsResponse, DELETE_TOPICS_VERSION)


def end_offsets(bootstrap_server: str, topic: str, partition_count: int) -> list[int]:
    """The offsets after the last record of each partition."""
    wanted = [
        ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        for index in range(partition_count)
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
    )
    with RawConnection(bootstrap_server) as connection:
        response = connection.call(request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
    return [partition.offset for partition in response.topics[0].partitions]


def append_one(bootstrap_server: str, topic: str) -> bool:
    """Whether the broker is far enough to acknowledge a record."""
    try:
        create_topic(bootstrap_server, topic)
        with RawConnection(bootstrap_server) as connection:
            append_once(connection, produce_frame(topic, 1, 100))
    except (OSError, RefusedError):
        return False
    return True
