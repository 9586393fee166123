"""Requests in a line each: what the tests of the handlers send, and what they look at in the answers."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import ottla
from ottla.broker.partitions.fetch_read import ParkedFetch
from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, read_batch, split_batches
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.declare import info_of
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

T = TypeVar("T")

ACKS_ALL = -1
PRODUCE_VERSION = 12  # the last one with topic names
FETCH_VERSION = 12  # likewise
FETCH_BYTES = 50 << 20
TOPIC, BROKER = 2, 4
WAIT_SECONDS = 10.0


def versions_of(request_class: type[Any]) -> list[int]:
    """The oldest and the newest version of a request."""
    versions = info_of(request_class).versions
    return [versions.first, versions.last]


def every_version_of(request_class: type[Any]) -> list[int]:
    versions = info_of(request_class).versions
    return list(range(versions.first, versions.last + 1))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# Inside the broker.


def running(broker: ottla.Broker) -> RunningBroker:
    """The broker's own objects, to see what no client can see; to be touched on its loop only."""
    found = broker._running
    assert found is not None
    return found


def on_loop(broker: ottla.Broker, look: Callable[[RunningBroker], T]) -> T:
    """What `look` finds, on the broker's own thread."""
    found = running(broker)
    assert broker._loop is not None

    async def work() -> T:
        return look(found)

    return asyncio.run_coroutine_threadsafe(work(), broker._loop).result(WAIT_SECONDS)


def waiter_count(broker: ottla.Broker) -> int:
    """How many fetches are parked; coordinators wait on their partitions as well."""
    return on_loop(
        broker,
        lambda found: sum(
            isinstance(waiter, ParkedFetch)
            for shard in found.node.partitions.open_shards()
            for waiter in shard.waiters
        ),
    )


def connection_count(broker: ottla.Broker) -> int:
    return on_loop(broker, lambda found: found.server.connection_count)


@contextmanager
def held_loop(broker: ottla.Broker) -> Iterator[None]:
    """Whatever is sent meanwhile, the broker reads at once afterwards."""
    is_over = threading.Event()
    holding = threading.Thread(target=lambda: on_loop(broker, lambda _: is_over.wait(10)))
    holding.start()
    try:
        yield
    finally:
        is_over.set()
        holding.join()


@contextmanager
def held_thread(broker: ottla.Broker) -> Iterator[None]:
    """What the broker does on its thread for long work waits until the block is over."""
    is_over = threading.Event()

    def hold(found: RunningBroker) -> asyncio.Future[bool]:
        return asyncio.ensure_future(found.cluster.share.elsewhere(is_over.wait, 10))

    holding = on_loop(broker, hold)
    try:
        yield
    finally:
        is_over.set()
        assert eventually(holding.done)


def eventually(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def session_with(broker: ottla.Broker) -> Iterator[RawConnection]:
    with RawConnection(broker.bootstrap_servers) as connection:
        yield connection


# Topics.


def create(
    connection: RawConnection,
    name: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> uuid.UUID:
    """Makes a topic; returns its id."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=-1,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name=option, value=value)
                    for option, value in (config or {}).items()
                ],
            )
        ]
    )
    (result,) = connection.call(request, CreateTopicsResponse, 7).topics
    assert result.error_code == ErrorCode.NONE, result
    topic_id: uuid.UUID = result.topic_id
    return topic_id


def delete(connection: RawConnection, name: str) -> DeletableTopicResult:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
    result: DeletableTopicResult = connection.call(request, DeleteTopicsResponse, 6).responses[0]
    return result


def set_options(
    connection: RawConnection, name: str, options: Mapping[str, str], resource_type: int = TOPIC
) -> int:
    """Sets options of a topic or broker; returns the error."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    AlterableConfig(name=option, config_operation=0, value=value)
                    for option, value in options.items()
                ],
            )
        ],
        validate_only=False,
    )
    error: int = (
        connection.call(request, IncrementalAlterConfigsResponse, 1).responses[0].error_code
    )
    return error


def delete_records(
    connection: RawConnection, topic: str, offset: int, version: int = 2
) -> DeleteRecordsPartitionResult:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=1000,
    )
    answer = connection.call(request, DeleteRecordsResponse, version)
    result: DeleteRecordsPartitionResult = answer.topics[0].partitions[0]
    return result


# Producing.


def records_of(*values: bytes | None, timestamp_ms: int | None = None) -> list[Record]:
    """Records with a key each."""
    at_ms = now_ms() if timestamp_ms is None else timestamp_ms
    return [Record(offset, at_ms, b"key", value) for offset, value in enumerate(values)]


def batch_of(*values: bytes | None, codec: Codec = Codec.NONE) -> bytes:
    return build_batch(records_of(*values), codec=codec)


def sequenced(
    producer_id: int, sequence: int, count: int = 1, epoch: int = 0, value: bytes = b"v"
) -> bytes:
    """A batch of an idempotent producer."""
    return build_batch(
        records_of(*[value] * count),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def produce_request(
    topic: str, data: bytes | None, *, partition: int = 0, acks: int = ACKS_ALL
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=data)]
            )
        ],
    )


def produce(
    connection: RawConnection,
    topic: str,
    data: bytes | None,
    *,
    partition: int = 0,
    acks: int = ACKS_ALL,
    version: int = PRODUCE_VERSION,
) -> PartitionProduceResponse:
    """Appends a batch; returns what the broker says of its partition."""
    request = produce_request(topic, data, partition=partition, acks=acks)
    answer = connection.call(request, ProduceResponse, version)
    result: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return result


def fill(connection: RawConnection, topic: str, *values: bytes, partition: int = 0) -> list[int]:
    """Appends a batch for each value; returns their offsets."""
    offsets = []
    for value in values:
        result = produce(connection, topic, batch_of(value), partition=partition)
        assert result.error_code == ErrorCode.NONE, result
        offsets.append(result.base_offset)
    return offsets


def new_producer_id(connection: RawConnection) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    answer = connection.call(request, InitProducerIdResponse, 4)
    assert answer.error_code == ErrorCode.NONE
    producer_id: int = answer.producer_id
    return producer_id


# Fetching.


def fetch_request(
    topic: str | uuid.UUID,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = FETCH_BYTES,
    partition_max_bytes: int = FETCH_BYTES,
    **fields: Any,
) -> FetchRequest:
    """A request for one partition; fields of the partition are given by their names."""
    asked = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
    )
    for name in ("current_leader_epoch", "last_fetched_epoch"):
        if name in fields:
            setattr(asked, name, fields.pop(name))
    named = (
        FetchTopic(topic_id=topic, partitions=[asked])
        if isinstance(topic, uuid.UUID)
        else FetchTopic(topic=topic, partitions=[asked])
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[named], **fields
    )


def fetch(
    connection: RawConnection,
    topic: str | uuid.UUID,
    offset: int,
    *,
    version: int = FETCH_VERSION,
    **options: Any,
) -> PartitionData:
    """Fetches one partition."""
    answer = connection.call(fetch_request(topic, offset, **options), FetchResponse, version)
    assert answer.error_code == ErrorCode.NONE
    result: PartitionData = answer.responses[0].partitions[0]
    return result


def records_in(data: PartitionData) -> list[Record]:
    """The records that a partition gave."""
    raw = bytes(data.records or b"")
    return [record for position, _ in split_batches(raw) for record in read_batch(raw, position)]


def values_in(data: PartitionData) -> list[bytes | None]:
    return [record.value for record in records_in(data)]


def read_values(connection: RawConnection, topic: str, partition: int = 0) -> list[bytes | None]:
    """Everything that a partition holds, read as a consumer reads it."""
    values: list[bytes | None] = []
    found = fetch(connection, topic, 0, partition=partition)
    offset = max(found.log_start_offset, 0)
    while True:
        found = fetch(connection, topic, offset, partition=partition)
        assert found.error_code == ErrorCode.NONE, found
        records = [record for record in records_in(found) if record.offset >= offset]
        if not records:
            return values
        values += [record.value for record in records]
        offset = records[-1].offset + 1
