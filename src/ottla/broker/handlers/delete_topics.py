"""DeleteTopics: deletes topics by name or by id."""

from __future__ import annotations

from collections import Counter

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.core.catalog import Topic
from ottla.errors import ErrorCode
from ottla.ports import StorageError
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.types import ZERO_UUID

REQUEST = DeleteTopicsRequest
FIRST_VERSION_WITH_DELETION_DISABLED = 3


def handle(
    node: Node, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    times = Counter((asked.name, asked.topic_id) for asked in wanted)
    return DeleteTopicsResponse(
        responses=[
            _delete(node, asked, context.version, times[asked.name, asked.topic_id])
            for asked in wanted
        ]
    )


def _delete(
    node: Node, asked: DeleteTopicState, version: int, times_asked: int
) -> DeletableTopicResult:
    topic = ErrorCode.INVALID_REQUEST if times_asked > 1 else _find(node, asked, version)
    if isinstance(topic, ErrorCode):
        return DeletableTopicResult(
            name=asked.name, topic_id=asked.topic_id, error_code=topic, error_message=topic.text
        )
    try:
        node.delete_topic(topic)
    except StorageError as error:
        failure = ErrorCode.KAFKA_STORAGE_ERROR
        return DeletableTopicResult(
            name=topic.name, topic_id=topic.topic_id, error_code=failure, error_message=str(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)


def _find(node: Node, asked: DeleteTopicState, version: int) -> Topic | ErrorCode:
    if not node.config.delete_topic_enable:
        return (
            ErrorCode.TOPIC_DELETION_DISABLED
            if version >= FIRST_VERSION_WITH_DELETION_DISABLED
            else ErrorCode.INVALID_REQUEST
        )
    catalog = node.cluster.catalog
    if (asked.name is None) == (asked.topic_id == ZERO_UUID):
        return ErrorCode.INVALID_REQUEST  # neither a name nor an id, or both
    if asked.topic_id != ZERO_UUID:
        return catalog.topics_by_id.get(asked.topic_id) or ErrorCode.UNKNOWN_TOPIC_ID
    return catalog.topics.get(asked.name or "") or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
