"""CreatePartitions: raises the partition count of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.node import Node
from ottla.broker.requests.request import RequestContext
from ottla.broker.requests.request_pieces import Division, Divisions, Repeated
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
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
DIVISIONS = Divisions((Division("topics", "results", repeated=Repeated(("name",), most=2)),))


class Grown(NamedTuple):
    """A topic that gets more partitions than it has."""

    name: str
    old_count: int
    changes: Changes


def handle(
    node: Node, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    times = Counter(asked.name for asked in request.topics)
    twice = Refused(ErrorCode.INVALID_REQUEST, "the topic is asked for twice")
    decided = [twice if times[asked.name] > 1 else _decide(node, asked) for asked in request.topics]
    failed: Refused | None = None
    if not request.validate_only:
        failed = _add(node, [changes for changes in decided if not isinstance(changes, Refused)])
    outcomes = [one if isinstance(one, Refused) else failed for one in decided]
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=asked.name,
                error_code=ErrorCode.NONE if refused is None else refused.error,
                error_message=None if refused is None else refused.message,
            )
            for asked, refused in zip(request.topics, outcomes, strict=True)
        ]
    )


def _decide(node: Node, asked: CreatePartitionsTopic) -> Grown | Refused:
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
    return Grown(asked.name, cluster.catalog.topics[asked.name].partition_count, changes)


def _add(node: Node, grown: Sequence[Grown]) -> Refused | None:
    """Adds partitions to topics, to all of them in one step."""
    cluster = node.cluster
    together: Changes = {}
    for each in grown:
        together |= each.changes
    try:
        if together:
            cluster.commit(together)
    except StorageError as error:
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    for each in grown:
        topic = cluster.catalog.topics[each.name]
        cluster.place_new(topic, each.old_count)
        logger.info(
            "partitions_added",
            "topic %(topic)s: %(partitions)d partitions, where there were %(partitions_before)d",
            topic=each.name,
            partitions=topic.partition_count,
            partitions_before=each.old_count,
        )
    return None
