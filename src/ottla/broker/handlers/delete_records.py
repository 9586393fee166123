"""DeleteRecords: moves the start offset of partitions up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_topic
from ottla.core.outcomes import Refused
from ottla.core.retention import decide_delete_records
from ottla.errors import ErrorCode
from ottla.ports import PartitionLog, StorageError
from ottla.ports.futures import settled
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


class Trim(NamedTuple):
    """A partition whose start is to move up, and its place in the response."""

    shard: Shard
    start_offset: int
    result: DeleteRecordsPartitionResult


async def handle(
    node: Node, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    results: list[list[DeleteRecordsPartitionResult]] = []
    trims: list[Trim] = []
    for topic in request.topics:
        results.append([])
        refused = refuse_topic(node, context.caller, Operation.DELETE, topic.name)
        if refused is not None:
            results[-1] += [_failed(asked, refused.error) for asked in topic.partitions]
            continue
        for asked in topic.partitions:
            found = _check(node, topic.name, asked)
            if isinstance(found, Trim):
                results[-1].append(found.result)
                trims.append(found)
            else:
                results[-1].append(_failed(asked, found))
    await _trim(node, trims)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=partitions)
            for topic, partitions in zip(request.topics, results, strict=True)
        ]
    )


def _check(node: Node, topic: str, asked: DeleteRecordsPartition) -> Trim | ErrorCode:
    shard = node.partitions.shard(topic, asked.partition_index)
    if not isinstance(shard, Shard):
        return shard
    decision = decide_delete_records(
        shard.partition, topic, shard.config.cleanup_policy, asked.offset
    )
    if isinstance(decision, Refused):
        return decision.error
    result = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=ErrorCode.NONE
    )
    return Trim(shard, decision.offset, result)


async def _trim(node: Node, trims: Sequence[Trim]) -> None:
    """Moves the starts of partitions up, durably in one step, and puts the outcomes into the results."""
    prepared: dict[PartitionLog, int] = {}
    failed: dict[PartitionLog, StorageError] = {}
    for shard, start_offset, _ in trims:
        if start_offset <= shard.partition.start_offset:
            continue
        try:
            await settled(shard.prepare_trim(start_offset))
            prepared[shard.log] = max(start_offset, prepared.get(shard.log, 0))
        except StorageError as error:
            failed[shard.log] = error
    if prepared:
        outcomes = await settled(node.cluster.store.trim_all(prepared))
        for log, outcome in zip(prepared, outcomes, strict=True):
            if outcome is not None:
                failed[log] = outcome
    for shard, _, result in trims:
        if shard.log in failed:
            shard.fail(failed[shard.log])
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            shard.partition.trim(prepared.get(shard.log, 0))
            result.low_watermark = shard.partition.start_offset


def _failed(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=error
    )


API = serve(DeleteRecordsRequest, DeleteRecordsResponse, handle, divisions=DIVISIONS)
