"""The requests of a producer to coordinators, in the versions that its transactions need (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ottla.client.aio.network.coordinator_cache import KEY_GROUP, KEY_TRANSACTION
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.producer.producer_batch import ProducerIdentity
from ottla.errors import AbortableError, ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

FIRST_INIT_THAT_BUMPS: Final = 3

# The newest versions that a client may use in transactions of version 1, or at all.
_NEWEST_ADD_PARTITIONS: Final = 3
_NEWEST_END_TXN_V1: Final = 4
_NEWEST_OFFSET_COMMIT_V1: Final = 4
# Later ones need the ids of topics: a producer does not follow the topics that its program reads.
_NEWEST_OFFSET_COMMIT_BY_NAME: Final = 5
_NEWEST_INIT: Final = 5
_FIRST_OFFSET_COMMIT_WITH_MEMBER: Final = 3
_NO_TIMEOUT_MS: Final = 2**31 - 1
# The last transaction's markers are being written when the first partition of the next is added.
_CONCURRENT_BACKOFF_MS: Final = 20.0

Codes = Mapping[TopicPartition | None, int]
"""Error codes by partition; None for the request as a whole."""

Offsets = Mapping[Any, OffsetAndMetadata | int]
"""Positions by TopicPartition, or by plain (topic, partition) tuples."""


class CoordinatorRequest(NamedTuple):
    """A request, how to build it for a version, and how to read the errors of its answer."""

    request_class: type[Any]
    build: Callable[[int], Any]
    codes_of: Callable[[Any], Codes]
    key: tuple[int, str] | None
    """Whose coordinator is asked: key type and key. None: any broker can answer."""
    at_most: int | None = None
    concurrent_backoff_ms: float | None = None
    """The longest pause after CONCURRENT_TRANSACTIONS."""

    @property
    def api(self) -> str:
        return self.request_class.__name__.removesuffix("Request")


def _code_of(response: Any) -> Codes:
    return {None: response.error_code}


def init_producer_id() -> CoordinatorRequest:
    """A producer id for an idempotent producer."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT_MS)
    return CoordinatorRequest(
        InitProducerIdRequest, lambda _: request, _code_of, None, _NEWEST_INIT
    )


def init_transactional_id(
    transactional_id: str,
    current: ProducerIdentity,
    timeout_ms: int,
    on_version: Callable[[int], None],
) -> CoordinatorRequest:
    """The producer id and a new epoch of a transactional id; `current` is bumped if there is one (KIP-360)."""

    def build(version: int) -> InitProducerIdRequest:
        on_version(version)
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=current.producer_id,
            producer_epoch=current.epoch,
        )

    key = (KEY_TRANSACTION, transactional_id)
    return CoordinatorRequest(InitProducerIdRequest, build, _code_of, key, _NEWEST_INIT)


def add_partitions_to_txn(
    transactional_id: str,
    identity: ProducerIdentity,
    keys: list[TopicPartition],
    *,
    is_first: bool,
) -> CoordinatorRequest:
    """Add partitions to a transaction of version 1."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for key in keys:
        topic = topics.setdefault(key.topic, AddPartitionsToTxnTopic(name=key.topic, partitions=[]))
        topic.partitions.append(key.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=list(topics.values()),
    )

    def codes_of(response: Any) -> Codes:
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }

    return CoordinatorRequest(
        AddPartitionsToTxnRequest,
        lambda _: request,
        codes_of,
        (KEY_TRANSACTION, transactional_id),
        _NEWEST_ADD_PARTITIONS,
        _CONCURRENT_BACKOFF_MS if is_first else None,
    )


def add_offsets_to_txn(
    transactional_id: str, identity: ProducerIdentity, group_id: str
) -> CoordinatorRequest:
    """Add a group's offsets to a transaction of version 1."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )
    key = (KEY_TRANSACTION, transactional_id)
    return CoordinatorRequest(AddOffsetsToTxnRequest, lambda _: request, _code_of, key)


def end_txn(
    transactional_id: str, identity: ProducerIdentity, *, is_commit: bool, is_version_2: bool
) -> CoordinatorRequest:
    """Commit or abort the transaction."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=is_commit,
    )
    key = (KEY_TRANSACTION, transactional_id)
    at_most = None if is_version_2 else _NEWEST_END_TXN_V1
    return CoordinatorRequest(EndTxnRequest, lambda _: request, _code_of, key, at_most)


def txn_offset_commit(
    transactional_id: str,
    identity: ProducerIdentity,
    left: dict[TopicPartition, OffsetAndMetadata],
    group: ConsumerGroupMetadata,
    *,
    is_version_2: bool,
) -> CoordinatorRequest:
    """Commit a group's positions with the transaction; positions that were accepted are removed from `left`."""

    def build(version: int) -> TxnOffsetCommitRequest:
        if version < _FIRST_OFFSET_COMMIT_WITH_MEMBER and group.member_id:
            raise AbortableError(
                ErrorCode.UNSUPPORTED_VERSION,
                "The broker cannot check the consumer's group metadata (KIP-447): "
                "give the group id instead.",
                {"api": "TxnOffsetCommit", "group": group.group_id},
            )
        return TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_offset_topics(left),
        )

    def codes_of(response: Any) -> Codes:
        codes: dict[TopicPartition | None, int] = {}
        for topic in response.topics:
            for each in topic.partitions:
                key = TopicPartition(topic.name, each.partition_index)
                if each.error_code == 0:
                    left.pop(key, None)
                codes[key] = each.error_code
        return codes

    at_most = _NEWEST_OFFSET_COMMIT_BY_NAME if is_version_2 else _NEWEST_OFFSET_COMMIT_V1
    return CoordinatorRequest(
        TxnOffsetCommitRequest, build, codes_of, (KEY_GROUP, group.group_id), at_most
    )


def _offset_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[TxnOffsetCommitRequestTopic]:
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for key, position in offsets.items():
        epoch = position.leader_epoch
        by_topic.setdefault(key.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=key.partition,
                committed_offset=position.offset,
                committed_leader_epoch=-1 if epoch is None else epoch,
                committed_metadata=position.metadata,
            )
        )
    return [
        TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
