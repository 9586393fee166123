"""TxnOffsetCommit: offsets that a group commits as part of a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.access import Operation
from ottla.broker.coordination.transactional_commit import (
    TransactionalCommit,
    commit_in_transaction,
)
from ottla.broker.handlers.offset_commit import OFFSETS_AT_ONCE
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group, refuse_topic, refuse_transactional_id
from ottla.core.catalog import Topic
from ottla.core.group.requests import CommitSender, NewOffsets
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.columns import columns_of
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

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
FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_OF_TRANSACTION_V2 = 5
FIRST_VERSION_WITH_TOPIC_IDS = 6

Errors = dict[TopicPartition, ErrorCode]


async def handle(
    node: Node, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    caller = context.caller
    refused = refuse_transactional_id(
        node, caller, Operation.WRITE, request.transactional_id
    ) or refuse_group(node, caller, Operation.READ, request.group_id)
    if refused is not None:
        return _response(request, [refused.error] * len(request.topics), {})
    topics = [_topic(node, topic, context) for topic in request.topics]
    offsets = _offsets(request, topics)
    commit = TransactionalCommit(
        CommitSender(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        ),
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        VERSION_2 if context.version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1,
    )
    result = await commit_in_transaction(node, commit, offsets)
    known = [
        TopicPartition(new.topic, partition) for new in offsets for partition in new.partitions
    ]
    if isinstance(result, Refused):
        errors = dict.fromkeys(known, _known_to(context.version, result.error))
    else:
        codes = (_known_to(context.version, error_of(refused)) for refused in result)
        errors = dict(zip(known, codes, strict=True))
    return _response(request, topics, errors)


def _topic(
    node: Node, asked: TxnOffsetCommitRequestTopic, context: RequestContext
) -> Topic | ErrorCode:
    catalog = node.cluster.catalog
    name = asked.name
    if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        known = catalog.topics_by_id.get(asked.topic_id)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = known.name
    refused = refuse_topic(node, context.caller, Operation.READ, name)
    if refused is not None:
        return refused.error
    return catalog.topics.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _offsets(request: TxnOffsetCommitRequest, topics: list[Topic | ErrorCode]) -> list[NewOffsets]:
    """The offsets of partitions that exist; of a partition that is named twice, the last one."""
    found: dict[str, tuple[Topic, dict[int, tuple[int, int, str]]]] = {}
    for asked, topic in zip(request.topics, topics, strict=True):
        if not isinstance(topic, Topic):
            continue
        _, rows = found.setdefault(topic.name, (topic, {}))
        columns = columns_of(asked.partitions, TxnOffsetCommitRequestPartition)
        for number, offset, leader_epoch, metadata in zip(*columns, strict=True):
            if 0 <= number < topic.partition_count:
                rows[number] = offset, leader_epoch, metadata or ""
    return [
        NewOffsets(
            topic.name,
            list(rows),
            [offset for offset, _, _ in rows.values()],
            [leader_epoch for _, leader_epoch, _ in rows.values()],
            [metadata for _, _, metadata in rows.values()],
            topic_id=topic.topic_id,
        )
        for topic, rows in found.values()
        if rows
    ]


# Errors of the coordinator that the client would not understand, and what it gets instead.
_TRANSLATED = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}

# What became of a group or a member, in versions that cannot say it (KIP-1319).
_BEFORE_TOPIC_IDS = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
}


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        error = _BEFORE_TOPIC_IDS.get(error, error)
    elif error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ErrorCode.UNKNOWN_TOPIC_ID  # the topic was deleted while the request waited
    return _TRANSLATED.get(error, error)


def _response(
    request: TxnOffsetCommitRequest, topics: Sequence[Topic | ErrorCode], errors: Errors
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_error(topic, partition.partition_index, errors),
                    )
                    for partition in asked.partitions
                ],
            )
            for asked, topic in zip(request.topics, topics, strict=True)
        ]
    )


def _error(topic: Topic | ErrorCode, partition: int, errors: Errors) -> ErrorCode:
    if isinstance(topic, ErrorCode):
        return topic
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors.get(TopicPartition(topic.name, partition), unknown)


API = serve(TxnOffsetCommitRequest, TxnOffsetCommitResponse, handle, divisions=DIVISIONS)
