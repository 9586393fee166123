"""TxnOffsetCommit: where a group goes on reading, if the transaction is committed."""

from __future__ import annotations

from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.coordination.groups import find_group
from ottla.broker.coordination.verification import confirm
from ottla.broker.handlers.offset_commit import OFFSETS_AT_ONCE
from ottla.broker.node import Node
from ottla.broker.requests.request import RequestContext
from ottla.broker.requests.request_pieces import Division, Divisions
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import CommitSender, NewOffset
from ottla.core.outcomes import Refused, error_of
from ottla.core.producer_state import Verification
from ottla.core.turn import ProducerIdentity, Turn
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

REQUEST = TxnOffsetCommitRequest
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
    result = await _commit(node, request, list(offsets.values()), context.version)
    if isinstance(result, Refused):
        errors = dict.fromkeys(offsets, _known_to(context.version, result.error))
    else:
        errors = dict(zip(offsets, [error_of(refused) for refused in result], strict=True))
    return _response(request, errors)


def _offsets(node: Node, request: TxnOffsetCommitRequest) -> dict[TopicPartition, NewOffset]:
    """What can be committed: offsets of partitions that exist."""
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


async def _commit(
    node: Node, request: TxnOffsetCommitRequest, offsets: list[NewOffset], version: int
) -> list[Refused | None] | Refused:
    if not offsets:
        return []
    coordinator = find_group(node, request.group_id)
    if isinstance(coordinator, Refused):
        return coordinator
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    transaction_version = VERSION_2 if version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1
    partition = coordinator.shard.partition
    needed = partition.own_verification_for(*producer, transaction_version)
    if isinstance(needed, Refused):
        return needed
    verification = needed if isinstance(needed, Verification) else None
    if verification is not None and _must_ask(node, transaction_version):
        ref = coordinator.shard.log.ref
        mine = TopicPartition(ref.topic, ref.partition)
        confirmed = confirm(node, request.transactional_id, producer, [mine], transaction_version)
        if not isinstance(confirmed, dict):
            confirmed = await confirmed()
        refused = confirmed[mine]
        if refused is not None:
            return refused
    sender = CommitSender(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
    answer = coordinator.ask(
        lambda groups, turn: _decide(
            coordinator, groups, turn, sender, producer, verification, offsets
        ),
        lambda result: result,
    )
    if isinstance(answer, Refused):
        return answer
    decided: list[Refused | None] | Refused = await answer
    return decided


def _must_ask(node: Node, transaction_version: int) -> bool:
    return transaction_version >= VERSION_2 or node.config.transaction_partition_verification_enable


def _decide(
    coordinator: Coordinator[GroupMachine],
    groups: GroupMachine,
    turn: Turn,
    sender: CommitSender,
    producer: ProducerIdentity,
    verification: Verification | None,
    offsets: list[NewOffset],
) -> list[Refused | None] | Refused:
    """Commits, unless a marker has come in between: it would have ended the transaction that this belongs to."""
    refused = coordinator.shard.partition.check_own(*producer, verification)
    if refused is not None:
        return refused
    return groups.commit_in_transaction(turn, sender, producer, offsets)


# What a client is told where the coordinator's error would not help it.
_TRANSLATED = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
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
