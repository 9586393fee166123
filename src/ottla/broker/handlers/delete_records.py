"""DeleteRecords: moves the start offset of partitions up."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.core.outcomes import Refused
from ottla.core.retention import decide_delete_records
from ottla.errors import ErrorCode
from ottla.ports import StorageError
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "topics",
            inner=Division("partitions", "partitions", piece_elements=4),
            named=("name",),
            piece_elements=4,
        ),
    )
)


def handle(
    node: Node, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    try:
        with node.cluster.store.trims_together():
            results = [
                [_delete(node, topic.name, asked) for asked in topic.partitions]
                for topic in request.topics
            ]
    except StorageError:
        results = [
            [_failed(asked, ErrorCode.KAFKA_STORAGE_ERROR) for asked in topic.partitions]
            for topic in request.topics
        ]
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=partitions)
            for topic, partitions in zip(request.topics, results, strict=True)
        ]
    )


def _delete(node: Node, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    shard = node.partitions.shard(topic, asked.partition_index)
    if not isinstance(shard, Shard):
        return _failed(asked, shard)
    decision = decide_delete_records(
        shard.partition, topic, shard.config.cleanup_policy, asked.offset
    )
    if isinstance(decision, Refused):
        return _failed(asked, decision.error)
    try:
        if decision.offset > shard.partition.start_offset:
            shard.trim(decision.offset)
    except StorageError as error:
        shard.fail(error)
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index,
        low_watermark=shard.partition.start_offset,
        error_code=ErrorCode.NONE,
    )


def _failed(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=error
    )


API = serve(DeleteRecordsRequest, DeleteRecordsResponse, handle, divisions=DIVISIONS)
