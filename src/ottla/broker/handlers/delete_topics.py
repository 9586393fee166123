"""DeleteTopics: deletes topics by name or by id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.metering import partition_permit
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import (
    EVERY_TOPIC,
    TOPIC_DENIED,
    allowed_topics,
    has_cluster_right,
)
from ottla.broker.security.caller import Caller
from ottla.broker.topics import Deletion, DeletionRights, TopicToDelete
from ottla.core.catalog import Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.types import ZERO_UUID

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
FIRST_VERSION_WITH_STRICT_QUOTA = 5

_Answer = DeleteTopicsResponse | Coroutine[Any, Any, DeleteTopicsResponse]


def handle(
    node: Node, request: DeleteTopicsRequest, context: RequestContext
) -> Reply[DeleteTopicsResponse]:
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    rights = _rights(node, wanted, context.caller)
    deletion = node.topics.delete_requested(
        [
            TopicToDelete(asked.name, None if asked.topic_id == ZERO_UUID else asked.topic_id)
            for asked in wanted
        ],
        rights,
        partition_permit(context, FIRST_VERSION_WITH_STRICT_QUOTA),
    )
    respond = partial(_respond, node, wanted, rights, context.version)
    if isinstance(deletion, asyncio.Future):
        return _respond_later(deletion, respond)
    return respond(deletion)


async def _respond_later(
    deletion: asyncio.Future[Deletion],
    respond: Callable[[Deletion], _Answer],
) -> DeleteTopicsResponse:
    answer = respond(await deletion)
    return answer if isinstance(answer, DeleteTopicsResponse) else await answer


def _respond(
    node: Node,
    wanted: Sequence[DeleteTopicState],
    rights: DeletionRights,
    version: int,
    deletion: Deletion,
) -> _Answer:
    response = DeleteTopicsResponse(
        responses=[
            _denied(node, asked, rights)
            if topic is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else _result(asked, topic, deletion.failure, version)
            for asked, topic in zip(wanted, deletion.outcomes, strict=True)
        ]
    )
    if deletion.removal is None:
        return response
    answer = node.cluster.share.answer(_after(deletion.removal, response))
    if answer is not response:
        node.cluster.deletion.forget_offsets_early(deletion.topics)
    return answer


def _after(
    removal: Generator[None, None, None], response: DeleteTopicsResponse
) -> Generator[None, None, DeleteTopicsResponse]:
    yield from removal
    return response


def _rights(node: Node, wanted: Sequence[DeleteTopicState], caller: Caller) -> DeletionRights:
    if has_cluster_right(node, caller, Operation.DELETE):
        return DeletionRights(EVERY_TOPIC, EVERY_TOPIC)
    names = [name for name in (_name(node, asked) for asked in wanted) if name is not None]
    return DeletionRights(
        allowed_topics(node, caller, Operation.DESCRIBE, names),
        allowed_topics(node, caller, Operation.DELETE, names),
    )


def _name(node: Node, asked: DeleteTopicState) -> str | None:
    if asked.topic_id == ZERO_UUID:
        return asked.name
    topic = node.cluster.catalog.topics_by_id.get(asked.topic_id)
    return None if topic is None else topic.name


def _denied(node: Node, asked: DeleteTopicState, rights: DeletionRights) -> DeletableTopicResult:
    """The answer for a topic that the client may not delete; its name only if the client knows it, or may see it."""
    name = _name(node, asked)
    return DeletableTopicResult(
        name=name if asked.name is not None or name in rights.describable else None,
        topic_id=asked.topic_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=TOPIC_DENIED.message,
    )


def _result(
    asked: DeleteTopicState,
    topic: Topic | ErrorCode,
    failure: Refused | None,
    version: int,
) -> DeletableTopicResult:
    if isinstance(topic, ErrorCode):
        if (
            topic is ErrorCode.TOPIC_DELETION_DISABLED
            and version < FIRST_VERSION_WITH_DELETION_DISABLED
        ):
            topic = ErrorCode.INVALID_REQUEST
        return DeletableTopicResult(
            name=asked.name, topic_id=asked.topic_id, error_code=topic, error_message=topic.text
        )
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE if failure is None else failure.error,
        error_message=None if failure is None else failure.text,
    )


API = serve(DeleteTopicsRequest, DeleteTopicsResponse, handle, divisions=DIVISIONS)
