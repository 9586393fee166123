"""OffsetCommit: the offsets at which a group goes on reading."""

from __future__ import annotations

from typing import NamedTuple

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group, refuse_topic
from ottla.core.catalog import Topic
from ottla.core.group.requests import CommitSender, NewOffset
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
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
    """A topic of the request and its partitions: the offset to commit, or why it cannot be."""

    topic: OffsetCommitRequestTopic
    partitions: list[NewOffset | ErrorCode]


def handle(
    node: Node, request: OffsetCommitRequest, context: RequestContext
) -> NowOrLater[OffsetCommitResponse]:
    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return _response([_failed(topic, refused.error) for topic in request.topics], [])
    asked = [_asked(node, topic, request, context) for topic in request.topics]
    offsets = [one for topic in asked for one in topic.partitions if isinstance(one, NewOffset)]

    def respond(results: list[Refused | None] | Refused) -> OffsetCommitResponse:
        errors = [ErrorCode.NONE] * len(offsets)
        if isinstance(results, Refused):
            errors = [_known_to(context.version, results.error)] * len(offsets)
        elif any(results):
            errors = [_known_to(context.version, error_of(refused)) for refused in results]
        return _response(asked, errors)

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
    return Asked(topic, [error] * len(topic.partitions))


def _asked(
    node: Node,
    topic: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    context: RequestContext,
) -> Asked:
    found = _topic(node, topic, context)
    if isinstance(found, ErrorCode):
        return _failed(topic, found)
    partitions: list[NewOffset | ErrorCode] = []
    for partition in topic.partitions:
        if not 0 <= partition.partition_index < found.partition_count:
            partitions.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            partitions.append(
                NewOffset(
                    found.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    request.retention_time_ms,
                    found.topic_id,
                )
            )
    return Asked(topic, partitions)


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


def _response(asked: list[Asked], errors: list[ErrorCode]) -> OffsetCommitResponse:
    following = iter(errors)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=one if isinstance(one, ErrorCode) else next(following),
                    )
                    for partition, one in zip(topic.partitions, partitions, strict=True)
                ],
            )
            for topic, partitions in asked
        ]
    )


API = serve(OffsetCommitRequest, OffsetCommitResponse, handle, divisions=DIVISIONS)
