"""OffsetCommit: the offsets at which a group goes on reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group, refuse_topic
from ottla.core.catalog import Topic
from ottla.core.group.requests import CommitSender, NewOffsets
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.columns import Columns, columns_of
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

# The offsets of a request up to this size are written as one batch.
OFFSETS_AT_ONCE = 1000
DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "topics",
            OFFSETS_AT_ONCE,
            inner=Division("partitions", "partitions", OFFSETS_AT_ONCE),
            named=("name", "topic_id"),
        ),
    )
)
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 9
FIRST_VERSION_WITH_MEMBER_EPOCHS = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10


class Asked(NamedTuple):
    """A topic of the request: the offsets that can be committed, and the errors of its partitions.

    There are no errors if all offsets can be committed; else partitions whose offsets can be have NONE.
    """

    topic: OffsetCommitRequestTopic
    partitions: list[int]
    offsets: NewOffsets | None
    errors: list[ErrorCode] | None


def handle(
    node: Node, request: OffsetCommitRequest, context: RequestContext
) -> NowOrLater[OffsetCommitResponse]:
    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return _response([_failed(topic, refused.error) for topic in request.topics], [])
    asked = [_asked(node, topic, request, context) for topic in request.topics]
    offsets = [topic.offsets for topic in asked if topic.offsets is not None]

    def respond(results: list[Refused | None] | Refused) -> OffsetCommitResponse:
        if isinstance(results, Refused):
            results = [results] * sum(len(new.partitions) for new in offsets)
        if not any(results):
            return _response(asked, None)
        return _response(asked, [_known_to(context.version, error_of(one)) for one in results])

    if request.topics and not offsets:
        return respond([])
    sender = CommitSender(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        context.version >= FIRST_VERSION_WITH_MEMBER_EPOCHS,
    )
    return node.groups.ask(
        request.group_id, lambda groups, turn, _: groups.commit(turn, sender, offsets), respond
    )


def _failed(topic: OffsetCommitRequestTopic, error: ErrorCode) -> Asked:
    partitions = columns_of(topic.partitions, OffsetCommitRequestPartition)[0]
    return Asked(topic, partitions, None, [error] * len(partitions))


def _asked(
    node: Node,
    topic: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    context: RequestContext,
) -> Asked:
    found = _topic(node, topic, context)
    if isinstance(found, ErrorCode):
        return _failed(topic, found)
    columns = columns_of(topic.partitions, OffsetCommitRequestPartition)
    partitions, offsets, leader_epochs, metadata = columns
    if None in metadata:
        metadata = [text or "" for text in metadata]
    new = NewOffsets(
        found.name,
        partitions,
        offsets,
        leader_epochs,
        metadata,
        request.retention_time_ms,
        found.topic_id,
    )
    count = found.partition_count
    if not partitions or (min(partitions) >= 0 and max(partitions) < count):
        return Asked(topic, partitions, new if partitions else None, None)
    errors = [
        ErrorCode.NONE if 0 <= partition < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions
    ]
    known = [place for place, error in enumerate(errors) if error is ErrorCode.NONE]
    return Asked(topic, partitions, new.only(known) if known else None, errors)


def _topic(
    node: Node, topic: OffsetCommitRequestTopic, context: RequestContext
) -> Topic | ErrorCode:
    catalog = node.cluster.catalog
    name = topic.name
    if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        known = catalog.topics_by_id.get(topic.topic_id)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = known.name
    refused = refuse_topic(node, context.caller, Operation.READ, name)
    if refused is not None:
        return refused.error
    return catalog.topics.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.GROUP_ID_NOT_FOUND and version < FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
        return ErrorCode.ILLEGAL_GENERATION  # older clients would not know what to do about that
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID  # the topic was deleted while the request waited
    return error


def _response(asked: list[Asked], outcomes: list[ErrorCode] | None) -> OffsetCommitResponse:
    """The response; `outcomes` are those of all offsets that could be committed, None if all of them were."""
    following = None if outcomes is None else iter(outcomes)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=one.topic.name,
                topic_id=one.topic.topic_id,
                partitions=Columns(
                    OffsetCommitResponsePartition, [one.partitions.copy(), _codes(one, following)]
                ),
            )
            for one in asked
        ]
    )


def _codes(asked: Asked, outcomes: Iterator[ErrorCode] | None) -> list[int]:
    """The error codes of a topic's partitions."""
    errors = asked.errors
    if errors is None:
        if outcomes is None:
            return [0] * len(asked.partitions)
        return [next(outcomes) for _ in asked.partitions]
    if outcomes is None:
        return list(errors)
    return [next(outcomes) if error is ErrorCode.NONE else error for error in errors]


API = serve(OffsetCommitRequest, OffsetCommitResponse, handle, divisions=DIVISIONS)
