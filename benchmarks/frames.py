"""Requests that the benchmarks send: encoded once, in versions that all peers speak."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

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
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
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
FIND_COORDINATOR_VERSION = 4
GROUP_KEY, TRANSACTION_KEY = 0, 1
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


def append_first(leader: str, frame: bytes) -> int:
    """As `append_once`, to a new topic: its leader may know of it a moment later than the metadata."""
    with RawConnection(leader) as connection:
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
    leaders(bootstrap_server, topic)


def leaders(bootstrap_server: str, topic: str) -> list[str]:
    """The address of the leader of each partition, once all have one."""
    with RawConnection(bootstrap_server) as connection:
        for _ in range(TRY_LIMIT):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            response = connection.call(request, MetadataResponse, METADATA_VERSION)
            (found,) = response.topics
            if found.error_code == 0 and all(each.leader_id >= 0 for each in found.partitions):
                nodes = {node.node_id: f"{node.host}:{node.port}" for node in response.brokers}
                by_index = {each.partition_index: each.leader_id for each in found.partitions}
                return [nodes[by_index[index]] for index in range(len(by_index))]
            time.sleep(TRY_SECONDS)
    raise RefusedError(f"topic {topic} was not created: error {found.error_code}")


def partitions_by_leader(
    bootstrap_server: str, topic: str, partitions: Iterable[int]
) -> dict[str, list[int]]:
    """Which of some partitions each leader has."""
    by_partition = leaders(bootstrap_server, topic)
    found: dict[str, list[int]] = {}
    for partition in partitions:
        found.setdefault(by_partition[partition], []).append(partition)
    return found


def coordinator(bootstrap_server: str, key: str, key_type: int) -> str | None:
    """The address of the coordinator of a group or a transactional id; None if there is none yet."""
    return coordinators(bootstrap_server, [key], key_type).get(key)


def coordinators(bootstrap_server: str, keys: Sequence[str], key_type: int) -> dict[str, str]:
    """The addresses of the coordinators of those that have one."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    with RawConnection(bootstrap_server) as connection:
        answer = connection.call(request, FindCoordinatorResponse, FIND_COORDINATOR_VERSION)
    return {
        found.key: f"{found.host}:{found.port}"
        for found in answer.coordinators
        if found.error_code == ErrorCode.NONE
    }


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


def end_offsets(
    bootstrap_server: str, topic: str, partition_count: int, isolation_level: int = 0
) -> list[int]:
    """The offsets after the last record of each partition, as its leader says."""
    found: dict[int, int] = {}
    by_leader = partitions_by_leader(bootstrap_server, topic, range(partition_count))
    for address, partitions in by_leader.items():
        wanted = [
            ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in partitions
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=wanted)],
        )
        with RawConnection(address) as connection:
            response = connection.call(request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
        for partition in response.topics[0].partitions:
            found[partition.partition_index] = partition.offset
    return [found[index] for index in range(partition_count)]


def append_one(bootstrap_server: str, topic: str) -> bool:
    """Whether the broker is far enough to acknowledge a record."""
    try:
        with RawConnection(leaders(bootstrap_server, topic)[0]) as connection:
            append_once(connection, produce_frame(topic, 1, 100))
    except (OSError, RefusedError):
        return False
    return True
