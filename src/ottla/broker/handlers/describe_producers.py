"""DescribeProducers: the producers of a partition and their open transactions (KIP-664)."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_topic
from ottla.core.catalog import check_name
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "topics",
            inner=Division("partition_indexes", "partitions", repeated=Repeated()),
            named=("name",),
            repeated=Repeated(("name",)),
        ),
    )
)


def handle(
    node: Node, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=_partitions(node, context, topic),
            )
            for topic in request.topics
        ]
    )


def _partitions(
    node: Node, context: RequestContext, topic: TopicRequest
) -> list[PartitionResponse]:
    refused = _refuse(node, context, topic.name)
    if refused is not None:
        return [_failed(partition, refused) for partition in topic.partition_indexes]
    return [_describe(node, topic.name, partition) for partition in topic.partition_indexes]


def _refuse(node: Node, context: RequestContext, topic: str) -> Refused | None:
    return check_name(topic) or refuse_topic(node, context.caller, Operation.READ, topic)


def _failed(partition: int, refused: Refused) -> PartitionResponse:
    return PartitionResponse(
        partition_index=partition,
        error_code=refused.error,
        error_message=refused.text,
        active_producers=[],
    )


def _describe(node: Node, topic: str, partition: int) -> PartitionResponse:
    shard = node.partitions.shard(topic, partition)
    if not isinstance(shard, Shard):
        return _failed(partition, Refused(shard))
    return PartitionResponse(
        partition_index=partition,
        error_code=ErrorCode.NONE,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_write_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in shard.partition.producers
        ],
    )


API = serve(DescribeProducersRequest, DescribeProducersResponse, handle, divisions=DIVISIONS)
