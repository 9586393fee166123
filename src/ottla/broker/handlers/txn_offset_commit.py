"""TxnOffsetCommit: offsets that a group commits as part of a transaction."""

from __future__ import annotations

from ottla.broker.coordination.transactional_commit import (
    TransactionalCommit,
    commit_in_transaction,
)
from ottla.broker.handlers.offset_commit import OFFSETS_AT_ONCE
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.core.group.requests import CommitSender, NewOffset
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
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
            named=("name",),
        ),
    )
)
FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_OF_TRANSACTION_V2 = 5

Errors = dict[TopicPartition, ErrorCode]


async def handle(
    node: Node, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    offsets = _offsets(node, request)
    commit = TransactionalCommit(
        CommitSender(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        ),
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        VERSION_2 if context.version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1,
    )
    result = await commit_in_transaction(node, commit, list(offsets.values()))
    if isinstance(result, Refused):
        errors = dict.fromkeys(offsets, _known_to(context.version, result.error))
    else:
        known = [_known_to(context.version, error_of(refused)) for refused in result]
        errors = dict(zip(offsets, known, strict=True))
    return _response(request, errors)


def _offsets(node: Node, request: TxnOffsetCommitRequest) -> dict[TopicPartition, NewOffset]:
    """The offsets of partitions that exist."""
    found = {}
    for topic in request.topics:
        known = node.cluster.catalog.topics.get(topic.name)
        for partition in topic.partitions:
            number = partition.partition_index
            if known is not None and 0 <= number < known.partition_count:
                found[TopicPartition(topic.name, number)] = NewOffset(
                    topic.name,
                    number,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    topic_id=known.topic_id,
                )
    return found


# Errors of the coordinator that the client would not understand, and what it gets instead.
_TRANSLATED = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
}


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return _TRANSLATED.get(error, error)


def _response(request: TxnOffsetCommitRequest, errors: Errors) -> TxnOffsetCommitResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors.get(
                            TopicPartition(topic.name, partition.partition_index), unknown
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = serve(TxnOffsetCommitRequest, TxnOffsetCommitResponse, handle, divisions=DIVISIONS)
