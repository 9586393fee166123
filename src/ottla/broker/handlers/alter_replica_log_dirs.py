"""AlterReplicaLogDirs: a broker has one folder, so replicas can only stay in it."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(
    node: Node, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    refused = refuse_cluster(node, context.caller, Operation.ALTER)
    if refused is not None:
        return _all_refused(request, refused)
    wanted = {
        TopicPartition(topic.name, partition): asked.path
        for asked in request.dirs
        for topic in asked.topics
        for partition in topic.partitions
    }
    known = {log_dir.path for log_dir in node.cluster.store.log_dirs()} if wanted else set()
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for place, path in wanted.items():
        result = results.setdefault(
            place.topic, AlterReplicaLogDirTopicResult(topic_name=place.topic, partitions=[])
        )
        error = _error(node, place) if path in known else ErrorCode.LOG_DIR_NOT_FOUND
        result.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=place.partition, error_code=error)
        )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _all_refused(
    request: AlterReplicaLogDirsRequest, refused: Refused
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(
                        partition_index=partition, error_code=refused.error
                    )
                    for partition in topic.partitions
                ],
            )
            for asked in request.dirs
            for topic in asked.topics
        ]
    )


def _error(node: Node, place: TopicPartition) -> ErrorCode:
    topic = node.cluster.topic_of(place.topic, place.partition)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not node.cluster.has_replica(node.node_id, topic, place.partition):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE


API = serve(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, handle)
