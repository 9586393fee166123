"""Transactions in a line each: a producer made of raw requests, at whatever versions a test wants."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.broker.group_requests import find_coordinator
from tests.broker.requests import WAIT_SECONDS, eventually, fetch, now_ms
from tests.core.test_aborted import batches_of

from ottla.client.raw import RawConnection
from ottla.core.partition import READ_COMMITTED
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch, read_batch
from ottla.records.control import MarkerType, parse_marker
from ottla.records.record import Record
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRANSACTION_KEY = 1
TIMEOUT_MS = 60_000
ADD_BATCHED_SINCE = 4
# The newest versions that clients of each transaction version use.
PRODUCE_V1, PRODUCE_V2 = 11, 12
END_V1, END_V2 = 4, 5
OFFSETS_V1, OFFSETS_V2 = 4, 5
OFFSETS_BY_TOPIC_ID = 6
ADD_CLIENT_VERSION = 3


class Identity(NamedTuple):
    producer_id: int
    epoch: int

    def older(self, by: int = 1) -> Identity:
        return self._replace(epoch=self.epoch - by)

    def newer(self) -> Identity:
        return self._replace(epoch=self.epoch + 1)


NOBODY = Identity(-1, -1)


def new_id() -> str:
    return f"tx-{uuid.uuid4().hex[:12]}"


def await_coordinator(connection: RawConnection, transactional_id: str) -> None:
    """Waits until transactions can be used; a broker that just began may need a while."""

    def is_there() -> bool:
        (found,) = find_coordinator(
            connection, transactional_id, key_type=TRANSACTION_KEY
        ).coordinators
        if found.error_code != ErrorCode.NONE:
            return False
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = connection.call(request, DescribeTransactionsResponse, 0)
        return bool(
            answer.transaction_states[0].error_code
            in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        )

    assert eventually(is_there, 60), "there is no coordinator"


# Each request.


def init(
    connection: RawConnection,
    transactional_id: str | None,
    *,
    timeout_ms: int = TIMEOUT_MS,
    expected: Identity = NOBODY,
    version: int = 5,
    **fields: Any,
) -> Any:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=expected.producer_id,
        producer_epoch=expected.epoch,
        **fields,
    )
    return connection.call(request, InitProducerIdResponse, version)


def init_error(connection: RawConnection, transactional_id: str, **details: Any) -> ErrorCode:
    return ErrorCode(init(connection, transactional_id, **details).error_code)


# What clients try again on; Kafka loads its coordinators after it has begun to answer.
COME_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def become(connection: RawConnection, transactional_id: str, **details: Any) -> Identity:
    """Asks until there is no other transaction in the way, as clients do."""
    answers: list[Any] = []

    def is_done() -> bool:
        answers.append(init(connection, transactional_id, **details))
        return answers[-1].error_code not in COME_AGAIN

    assert eventually(is_done, WAIT_SECONDS), answers[-1]
    assert answers[-1].error_code == ErrorCode.NONE, answers[-1]
    return Identity(answers[-1].producer_id, answers[-1].producer_epoch)


def add_partitions(
    connection: RawConnection,
    transactional_id: str,
    who: Identity,
    partitions: Mapping[str, Sequence[int]],
    *,
    version: int = ADD_CLIENT_VERSION,
    verify_only: bool = False,
) -> list[ErrorCode]:
    """The error of each partition, in their order."""
    topics = [
        AddPartitionsToTxnTopic(name=name, partitions=list(numbers))
        for name, numbers in partitions.items()
    ]
    if version < ADD_BATCHED_SINCE:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=topics,
        )
    else:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            verify_only=verify_only,
            topics=topics,
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
    answer = connection.call(request, AddPartitionsToTxnResponse, version)
    results = (
        answer.results_by_topic_v3_and_below
        if version < ADD_BATCHED_SINCE
        else answer.results_by_transaction[0].topic_results
    )
    # Kafka answers in no order.
    found = sorted(
        (topic.name, one.partition_index, one.partition_error_code)
        for topic in results
        for one in topic.results_by_partition
    )
    return [ErrorCode(error) for _, _, error in found]


def add_offsets(
    connection: RawConnection,
    transactional_id: str,
    who: Identity,
    group: str,
    *,
    version: int = 4,
) -> ErrorCode:
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        group_id=group,
    )
    return ErrorCode(connection.call(request, AddOffsetsToTxnResponse, version).error_code)


def commit_offsets(
    connection: RawConnection,
    transactional_id: str,
    who: Identity,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    version: int = OFFSETS_V2,
    metadata: str | None = "",
    **member: Any,
) -> list[ErrorCode]:
    """The error of each partition."""
    request = commit_offsets_request(
        transactional_id, who, group, offsets, metadata=metadata, **member
    )
    if version >= OFFSETS_BY_TOPIC_ID:
        known = topic_ids(connection)
        for topic in request.topics:
            topic.topic_id = known.get(topic.name, uuid.uuid4())
    answer = connection.call(request, TxnOffsetCommitResponse, version)
    return [
        ErrorCode(partition.error_code) for topic in answer.topics for partition in topic.partitions
    ]


def topic_ids(connection: RawConnection) -> dict[str, uuid.UUID]:
    """The ids of all topics."""
    answer = connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
    return {topic.name: topic.topic_id for topic in answer.topics}


def commit_offsets_request(
    transactional_id: str,
    who: Identity,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    metadata: str | None = "",
    **member: Any,
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
        **member,
    )


def end(
    connection: RawConnection,
    transactional_id: str,
    who: Identity,
    *,
    commits: bool = True,
    version: int = END_V2,
) -> Any:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        committed=commits,
    )
    return connection.call(request, EndTxnResponse, version)


def end_error(
    connection: RawConnection, transactional_id: str, who: Identity, **details: Any
) -> ErrorCode:
    return ErrorCode(end(connection, transactional_id, who, **details).error_code)


def batch(who: Identity, sequence: int, *values: bytes) -> bytes:
    at_ms = now_ms()
    return build_batch(
        [Record(number, at_ms, b"key", value) for number, value in enumerate(values)],
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=sequence,
        flags=BatchFlag.TRANSACTIONAL,
    )


def send_request(
    transactional_id: str | None, topic: str, data: bytes, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=data)]
            )
        ],
    )


def send(
    connection: RawConnection,
    transactional_id: str | None,
    who: Identity,
    topic: str,
    sequence: int = 0,
    *values: bytes,
    partition: int = 0,
    version: int = PRODUCE_V2,
) -> ErrorCode:
    """Appends a batch inside a transaction."""
    data = batch(who, sequence, *(values or (b"value",)))
    request = send_request(transactional_id, topic, data, partition)
    answer = connection.call(request, ProduceResponse, version)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def write_markers(
    connection: RawConnection,
    who: Identity,
    partitions: Mapping[str, Sequence[int]],
    *,
    commits: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    version: int = 2,
) -> list[ErrorCode]:
    marker = WritableTxnMarker(
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        transaction_result=commits,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=list(numbers))
            for name, numbers in partitions.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = connection.call(request, WriteTxnMarkersResponse, version)
    return [
        ErrorCode(partition.error_code)
        for topic in answer.markers[0].topics
        for partition in topic.partitions
    ]


def describe(connection: RawConnection, transactional_id: str) -> Any:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return connection.call(request, DescribeTransactionsResponse, 0).transaction_states[0]


def state_of(connection: RawConnection, transactional_id: str) -> str:
    found: str = describe(connection, transactional_id).transaction_state
    return found


def await_state(connection: RawConnection, transactional_id: str, *states: str) -> None:
    assert eventually(lambda: state_of(connection, transactional_id) in states), state_of(
        connection, transactional_id
    )


def list_ids(connection: RawConnection, *, version: int = 2, **filters: Any) -> set[str]:
    filters = {"state_filters": [], "producer_id_filters": [], **filters}
    request = ListTransactionsRequest(**filters)
    answer = connection.call(request, ListTransactionsResponse, version)
    assert answer.error_code == ErrorCode.NONE, answer
    return {found.transactional_id for found in answer.transaction_states}


def producers_of(
    connection: RawConnection, topic: str, partition: int = 0
) -> dict[int, ProducerState]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=[partition])]
    )
    answer = connection.call(request, DescribeProducersResponse, 0)
    found = answer.topics[0].partitions[0]
    assert found.error_code == ErrorCode.NONE, found
    return {one.producer_id: one for one in found.active_producers}


# Reading.


def committed_values(
    connection: RawConnection, topic: str, partition: int = 0
) -> list[bytes | None]:
    """What a read_committed consumer hands out, which leaves out by producer id what was aborted."""
    found = fetch(connection, topic, 0, partition=partition, isolation_level=READ_COMMITTED)
    assert found.error_code == ErrorCode.NONE, found
    waiting = sorted(
        (one.first_offset, one.producer_id) for one in found.aborted_transactions or ()
    )
    active: set[int] = set()
    values: list[bytes | None] = []
    for header, data in batches_of(bytes(found.records or b"")):
        while waiting and waiting[0][0] <= header.last_offset:
            active.add(waiting.pop(0)[1])
        if header.is_control:
            marker = parse_marker(_records(data)[0])
            if marker is not None and marker.type is MarkerType.ABORT:
                active.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in active):
            values += [record.value for record in _records(data)]
    return values


def _records(data: bytes) -> list[Record]:
    return list(read_batch(data, 0))


def last_stable_offset(connection: RawConnection, topic: str, partition: int = 0) -> int:
    found = fetch(connection, topic, 0, partition=partition, isolation_level=READ_COMMITTED)
    offset: int = found.last_stable_offset
    return offset


def high_watermark(connection: RawConnection, topic: str, partition: int = 0) -> int:
    offset: int = fetch(connection, topic, 0, partition=partition).high_watermark
    return offset


def is_healed(connection: RawConnection, topic: str, partition: int = 0) -> bool:
    """Whether nothing is open any more."""
    return last_stable_offset(connection, topic, partition) == high_watermark(
        connection, topic, partition
    )
