"""DescribeTopicPartitions: the partitions of topics, a page at a time."""

from __future__ import annotations

from collections.abc import Generator

from ottla import access
from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import MAX_ELEMENTS_IN_SLICES, serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import (
    authorized_operations,
    may_see_topic,
    refuse_topic,
)
from ottla.broker.security.caller import Caller
from ottla.core.catalog import Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.types import ZERO_UUID

PARTITIONS_PER_STEP = 16
NAMES_PER_STEP = 64
LIMIT = 2000  # Kafka's max.request.partition.size.limit


def handle(
    node: Node, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Reply[DescribeTopicPartitionsResponse]:
    return node.cluster.share.answer(_respond(node, request, context.caller))


def _respond(
    node: Node, request: DescribeTopicPartitionsRequest, caller: Caller
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Goes through the topics by name, from the cursor on, as long as there is room."""
    asked_for = sorted({asked.name for asked in request.topics})
    cursor = request.cursor
    if cursor is not None and not _is_valid(request, cursor):
        return DescribeTopicPartitionsResponse(
            topics=[_failed(name, ErrorCode.INVALID_REQUEST) for name in asked_for]
        )
    names = asked_for or sorted(node.cluster.catalog.topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    denied = (yield from _denied(node, caller, names)) if asked_for else {}
    room = min(max(request.response_partition_limit, 1), LIMIT)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        yield
        if name in denied or (not asked_for and not may_see_topic(node, caller, name)):
            continue
        topic = node.topics.find(name)
        if isinstance(topic, Refused):
            failed = _failed(name, topic.error)
            failed.topic_authorized_operations = authorized_operations(
                node, caller, access.topic(name)
            )
            response.topics.append(failed)
            continue
        if room <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first_partition = 0
        if cursor is not None and name == cursor.topic_name:
            first_partition = cursor.partition_index
        end = min(topic.partition_count, first_partition + room)
        partitions = range(first_partition, end)
        response.topics.append((yield from _described(node, caller, topic, partitions)))
        room -= end - first_partition
        if end < topic.partition_count:
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    # As in Kafka, on every page and without an operation.
    response.topics += [_failed(name, error) for name, error in denied.items()]
    return response


def _denied(
    node: Node, caller: Caller, names: list[str]
) -> Generator[None, None, dict[str, ErrorCode]]:
    """The topics that the caller may not see, whether they exist or not."""
    denied: dict[str, ErrorCode] = {}
    if node.authorizer.is_open:
        return denied
    for number, name in enumerate(names):
        if not number % NAMES_PER_STEP:
            yield
        refused = refuse_topic(node, caller, Operation.DESCRIBE, name)
        if refused is not None:
            denied[name] = refused.error
    return denied


def _is_valid(request: DescribeTopicPartitionsRequest, cursor: Cursor) -> bool:
    """Whether the cursor can be one of ours: a topic that is asked for, and one of its partitions."""
    is_asked = not request.topics or any(
        asked.name == cursor.topic_name for asked in request.topics
    )
    return is_asked and cursor.partition_index >= 0


def _failed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error, name=name, topic_id=ZERO_UUID, partitions=[]
    )


def _described(
    node: Node, caller: Caller, topic: Topic, partitions: range
) -> Generator[None, None, DescribeTopicPartitionsResponseTopic]:
    described = []
    for partition in partitions:
        if not partition % PARTITIONS_PER_STEP:
            yield
        placed = node.cluster.place(topic, partition)
        described.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=placed.error,
                partition_index=partition,
                leader_id=placed.leader_id,
                leader_epoch=placed.leader_epoch,
                replica_nodes=placed.replicas,
                isr_nodes=placed.in_sync,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=placed.offline,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=described,
        topic_authorized_operations=authorized_operations(node, caller, access.topic(topic.name)),
    )


API = serve(
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    handle,
    max_elements=MAX_ELEMENTS_IN_SLICES,
)
