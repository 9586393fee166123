"""Asking the coordinator whether a partition belongs to a producer's transaction (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.crashpoints import CrashPoint, reach
from ottla.broker.node import Node
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_2
from ottla.errors import ErrorCode
from ottla.model import TopicPartition, coordinator_partition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

VERSION = 5

Errors = dict[TopicPartition, ErrorCode]
# Made when somebody awaits it: a coroutine that is never begun, because its node ends first, would be a warning.
LaterErrors = Callable[[], Awaitable[Errors]]
Answer = AddPartitionsToTxnResponse | UnreachableError


def confirm(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    version: int,
) -> Errors | LaterErrors:
    """What the coordinator says of each partition; one of this node may say it at once.

    A client of transaction version 2 does not register its partitions: what it writes to is part of its transaction.
    """
    coordinator = _coordinator(node, transactional_id)
    if coordinator is None:
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    request = _request(transactional_id, producer, partitions, version)
    reach(CrashPoint.BEFORE_VERIFICATION)
    answer = node.cluster.peers.call(node.node_id, coordinator, request, VERSION)
    if isinstance(answer, asyncio.Future):
        return partial(_confirmed_later, answer, partitions)
    return _confirmed(answer, partitions)


async def _confirmed_later(
    answer: asyncio.Future[Answer], partitions: Sequence[TopicPartition]
) -> Errors:
    return _confirmed(await answer, partitions)


def _confirmed(answer: Answer, partitions: Sequence[TopicPartition]) -> Errors:
    reach(CrashPoint.AFTER_VERIFICATION)
    if isinstance(answer, UnreachableError):
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _errors(answer, partitions)


def _coordinator(node: Node, transactional_id: str) -> int | None:
    topic = node.transactions.topic
    if topic is None:
        return None
    partition = coordinator_partition(transactional_id, topic.partition_count)
    return node.cluster.leader_of(topic, partition)


def _request(
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    version: int,
) -> AddPartitionsToTxnRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=version < VERSION_2,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic.items()
        ],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _errors(answer: AddPartitionsToTxnResponse, partitions: Sequence[TopicPartition]) -> Errors:
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if answer.error_code != ErrorCode.NONE:
        return dict.fromkeys(partitions, ErrorCode(answer.error_code))
    found = {
        TopicPartition(topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for transaction in answer.results_by_transaction
        for topic in transaction.topic_results
        for one in topic.results_by_partition
    }
    return {partition: found.get(partition, missing) for partition in partitions}


# What a client can make of the coordinator's errors: those that pass become one that it tries again on.
_TRANSLATED = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorCode.NOT_ENOUGH_REPLICAS,
}


def for_produce(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """The error of a Produce request for one of the coordinator's."""
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return _TRANSLATED.get(error, error)
