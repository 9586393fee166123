"""DeleteTopics: deletes topics by name or by id."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Generator

from ottla.broker.node import Node
from ottla.broker.requests.request import Answer, RequestContext
from ottla.broker.requests.request_pieces import Division, Divisions, Repeated
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
DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "responses",
            piece_elements=64,
            repeated=Repeated(("name", "topic_id"), most=2),
        ),
        Division("topic_names", "responses", piece_elements=64, repeated=Repeated(most=2)),
    )
)
FIRST_VERSION_WITH_DELETION_DISABLED = 3


def handle(node: Node, request: DeleteTopicsRequest, context: RequestContext) -> Answer:
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    times = Counter((asked.name, asked.topic_id) for asked in wanted)
    found: list[Topic | ErrorCode] = []
    topics: dict[uuid.UUID, Topic] = {}
    for asked in wanted:
        is_twice = times[asked.name, asked.topic_id] > 1
        topic = ErrorCode.INVALID_REQUEST if is_twice else _find(node, asked, context.version)
        if isinstance(topic, Topic):
            if topic.topic_id in topics:  # by its name and by its id: once is enough
                topic = _unknown(asked)
            else:
                topics[topic.topic_id] = topic
        found.append(topic)
    failure: StorageError | None = None
    removal: Generator[None, None, None] | None = None
    try:
        if topics:
            removal = node.delete_topics(list(topics.values()))
    except StorageError as error:
        failure = error
    response = DeleteTopicsResponse(
        responses=[
            _result(asked, topic, failure) for asked, topic in zip(wanted, found, strict=True)
        ]
    )
    if removal is None:
        return response
    answer = node.cluster.share.answer(_after(removal, response))
    if answer is not response:
        node.cluster.forget_offsets_early(topics.values())
    return answer


def _after(
    removal: Generator[None, None, None], response: DeleteTopicsResponse
) -> Generator[None, None, DeleteTopicsResponse]:
    yield from removal
    return response


def _result(
    asked: DeleteTopicState, topic: Topic | ErrorCode, failure: StorageError | None
) -> DeletableTopicResult:
    if isinstance(topic, ErrorCode):
        return DeletableTopicResult(
            name=asked.name, topic_id=asked.topic_id, error_code=topic, error_message=topic.text
        )
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE if failure is None else ErrorCode.KAFKA_STORAGE_ERROR,
        error_message=None if failure is None else str(failure),
    )


def _unknown(asked: DeleteTopicState) -> ErrorCode:
    by_id = asked.topic_id != ZERO_UUID
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


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
        return catalog.topics_by_id.get(asked.topic_id) or _unknown(asked)
    return catalog.topics.get(asked.name or "") or _unknown(asked)
