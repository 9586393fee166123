"""AlterPartitionReassignments: replicas are the storage engine's business, so only those that hold are accepted."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "responses",
            inner=Division("partitions", "partitions"),
            named=("name",),
        ),
    )
)


def handle(
    node: Node, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    refused = refuse_cluster(node, context.caller, Operation.ALTER)
    if refused is not None:
        return _all_refused(request, refused)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _result(
                        partition,
                        _check(
                            node, topic.name, partition, request.allow_replication_factor_change
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _all_refused(
    request: AlterPartitionReassignmentsRequest, refused: Refused
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=refused.error,
        error_message=refused.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_result(partition, refused) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _result(
    partition: ReassignablePartition, refused: Refused | None
) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=partition.partition_index,
        error_code=error_of(refused),
        error_message=None if refused is None else refused.message,
    )


def _check(
    node: Node, name: str, asked: ReassignablePartition, may_change_count: bool
) -> Refused | None:
    """Whether a partition has these replicas already; the errors are checked in Kafka's order."""
    cluster = node.cluster
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name not in cluster.catalog.topics:
        return Refused(unknown, f"Unable to find a topic named {name}.")
    topic = cluster.topic_of(name, asked.partition_index)
    if topic is None:
        return Refused(unknown, f"Unable to find partition {name}:{asked.partition_index}.")
    if asked.replicas is None:
        return Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    refused = _check_brokers(node, asked.replicas)
    if refused is not None:
        return refused
    current = cluster.place(topic, asked.partition_index).replicas
    if not may_change_count and len(asked.replicas) != len(current):
        return Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(current)} to {len(asked.replicas)}",
        )
    if asked.replicas != current:
        return Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Replicas cannot be moved: all brokers use the same storage. "
            f"Partition {name}:{asked.partition_index} has the replicas {current}.",
        )
    return None


def _check_brokers(node: Node, replicas: list[int]) -> Refused | None:
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        return Refused(invalid, "The manual partition assignment includes an empty replica list.")
    before = None
    for broker_id in sorted(replicas):
        if broker_id not in node.cluster.registered:
            return Refused(
                invalid,
                f"The manual partition assignment includes broker {broker_id}, but no such broker "
                "is registered.",
            )
        if broker_id == before:
            return Refused(
                invalid,
                f"The manual partition assignment includes the broker {broker_id} more than once.",
            )
        before = broker_id
    return None


API = serve(
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    handle,
    divisions=DIVISIONS,
)
