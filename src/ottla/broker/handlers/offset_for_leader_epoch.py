"""OffsetForLeaderEpoch: the end offset of a leader epoch."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import has_cluster_right, refuse_topic
from ottla.core.leader_epochs import end_of_epoch
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

DIVISIONS = Divisions(
    (Division("topics", "topics", inner=Division("partitions", "partitions"), named=("topic",)),)
)


def handle(
    node: Node, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    caller = context.caller
    topics = []
    is_node = has_cluster_right(node, caller, Operation.CLUSTER_ACTION)
    for topic in request.topics:
        refused = None if is_node else refuse_topic(node, caller, Operation.DESCRIBE, topic.topic)
        ends = [
            _end(node, topic.topic, asked)
            if refused is None
            else EpochEndOffset(error_code=refused.error, partition=asked.partition)
            for asked in topic.partitions
        ]
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    shard = node.partitions.shard(topic, asked.partition)
    if not isinstance(shard, Shard):
        return EpochEndOffset(error_code=shard, partition=asked.partition)
    refused = shard.partition.check_leader_epoch(asked.current_leader_epoch)
    if refused is not None:
        return EpochEndOffset(error_code=refused.error, partition=asked.partition)
    end = end_of_epoch(
        shard.log.epochs,
        shard.partition.leader_epoch,
        asked.leader_epoch,
        shard.partition.high_watermark,
    )
    return EpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=asked.partition,
        leader_epoch=end.epoch,
        end_offset=end.end_offset,
    )


API = serve(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, handle, divisions=DIVISIONS)
