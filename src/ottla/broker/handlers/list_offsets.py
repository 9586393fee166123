"""ListOffsets: the offset at a timestamp, or at a named position."""

from __future__ import annotations

from collections import Counter

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.broker.request_pieces import Division, Divisions, Repeated
from ottla.broker.shard import Shard
from ottla.core.leader_epochs import epoch_at
from ottla.core.offsets import NOT_FOUND, FoundOffset, first_at, first_of_max_timestamp
from ottla.errors import ErrorCode
from ottla.ports import StorageError
from ottla.records.batch import read_header
from ottla.records.errors import CorruptRecordsError
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

REQUEST = ListOffsetsRequest
DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "topics",
            inner=Division(
                "partitions", "partitions", repeated=Repeated(("partition_index",), most=2)
            ),
            named=("name",),
            repeated=Repeated(("name",)),
        ),
    )
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


# The version that brought a named position; an older request cannot mean it.
_POSITIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(node: Node, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    times = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _failed(asked, ErrorCode.INVALID_REQUEST)
                    if times[topic.name, asked.partition_index] > 1
                    else _offset(node, topic.name, asked, request.isolation_level, context.version)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset(
    node: Node, topic: str, asked: ListOffsetsPartition, isolation_level: int, version: int
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and version < _POSITIONS.get(asked.timestamp, version + 1):
        return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    shard = node.shard(topic, asked.partition_index)
    if not isinstance(shard, Shard):
        return _failed(asked, shard)
    error = shard.partition.check_leader_epoch(asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return _failed(asked, error)
    try:
        found = _find(shard, asked.timestamp, isolation_level)
    except StorageError as failure:
        shard.fail(failure)
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    except CorruptRecordsError:
        return _failed(asked, ErrorCode.CORRUPT_MESSAGE)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(shard: Shard, timestamp: int, isolation_level: int) -> FoundOffset:
    log, partition = shard.log, shard.partition
    bounds = partition.bounds(isolation_level)
    if timestamp == LATEST:
        return FoundOffset(bounds.end_offset, -1, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = epoch_at(log.epochs, bounds.start_offset)
        return FoundOffset(bounds.start_offset, -1, epoch if epoch >= 0 else partition.leader_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND  # there is no tiered storage
    if timestamp == MAX_TIMESTAMP:
        batch = log.batch_of_max_timestamp()
        found = NOT_FOUND if batch is None else first_of_max_timestamp(batch)
    else:
        found = _first_at(shard, timestamp, bounds.start_offset)
    return found if found.offset < bounds.end_offset else NOT_FOUND


def _first_at(shard: Shard, timestamp: int, start_offset: int) -> FoundOffset:
    """The first record at or after the timestamp.

    DeleteRecords may have cut the batch in two: what makes it late enough can lie below the start.
    """
    offset = start_offset
    while True:
        batch = shard.log.batch_at_timestamp(timestamp, offset)
        if batch is None:
            return NOT_FOUND
        found = first_at(batch, timestamp, start_offset)
        if found is not NOT_FOUND:
            return found
        offset = read_header(batch, 0).last_offset + 1


def _failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
