"""OffsetForLeaderEpoch: the end offset of a leader epoch."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import may_act_as_node, refuse_topic
from ottla.core.leader_epochs import end_of_epoch
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

DIVISIONS = Divisions(
    (Division("topics", "topics", inner=Division("partitions", "partitions"), named=("topic",)),)
)


def handle(
    node: Node, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    # Nodes ask too, and then about any topic.
    is_node = may_act_as_node(node, context.caller)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=_ends(node, topic, None if is_node else context)
            )
            for topic in request.topics
        ]
    )


def _ends(
    node: Node, topic: OffsetForLeaderTopic, context: RequestContext | None
) -> list[EpochEndOffset]:
    """The ends in a topic; `context` is that of a client that needs the right to know them."""
    if context is not None:
        refused = refuse_topic(node, context.caller, Operation.DESCRIBE, topic.topic)
        if refused is not None:
            return [
                EpochEndOffset(error_code=refused.error, partition=asked.partition)
                for asked in topic.partitions
            ]
    return [_end(node, topic.topic, asked) for asked in topic.partitions]


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
