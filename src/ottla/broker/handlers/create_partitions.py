"""CreatePartitions: raises the partition count of topics."""

from __future__ import annotations

from collections import Counter

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.core.catalog import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import StorageError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

logger = EventLog(__name__)

REQUEST = CreatePartitionsRequest


def handle(
    node: Node, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    times = Counter(asked.name for asked in request.topics)
    results = []
    for asked in request.topics:
        if times[asked.name] > 1:
            refused: Refused | None = Refused(
                ErrorCode.INVALID_REQUEST, "the topic is asked for twice"
            )
        else:
            refused = _add(node, asked, request.validate_only)
        results.append(
            CreatePartitionsTopicResult(
                name=asked.name,
                error_code=ErrorCode.NONE if refused is None else refused.error,
                error_message=None if refused is None else refused.message,
            )
        )
    return CreatePartitionsResponse(results=results)


def _add(node: Node, asked: CreatePartitionsTopic, validate_only: bool) -> Refused | None:
    cluster = node.cluster
    assignments = (
        None
        if asked.assignments is None
        else [assigned.broker_ids for assigned in asked.assignments]
    )
    changes = cluster.catalog.add_partitions(
        asked.name, asked.count, assignments, list(cluster.nodes)
    )
    if isinstance(changes, Refused):
        return changes
    if not validate_only:
        old_count = cluster.catalog.topics[asked.name].partition_count
        try:
            cluster.commit(changes)
        except StorageError as error:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        cluster.place_new(cluster.catalog.topics[asked.name], old_count)
        logger.info(
            "partitions_added",
            "topic %(topic)s: %(partitions)d partitions, where there were %(partitions_before)d",
            topic=asked.name,
            partitions=asked.count,
            partitions_before=old_count,
        )
    return None
