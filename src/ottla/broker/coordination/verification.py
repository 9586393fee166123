"""Asks the coordinator whether partitions belong to a producer's transaction (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.crashpoints import CrashPoint, reach
from ottla.broker.node import Node
from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_2
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER, TopicPartition, coordinator_partition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

VERSION = 5

NOT_AVAILABLE = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)

# The coordinator's answer for each partition: None confirms.
Confirmations = dict[TopicPartition, Refused | None]
# A function, because a coroutine that is never awaited, since its node ends first, would cause a warning.
LaterConfirmations = Callable[[], Awaitable[Confirmations]]
Answer = AddPartitionsToTxnResponse | UnreachableError


def confirm(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    version: int,
) -> Confirmations | LaterConfirmations:
    """Asks the coordinator; one on this node may answer at once.

    Clients of transaction version 2 do not register their partitions: the question adds them to the transaction.
    """
    answer = _ask(node, transactional_id, producer, partitions, version)
    if isinstance(answer, asyncio.Future):
        return partial(_confirmed_later, answer, partitions)
    return _confirmed(answer, partitions)


def _ask(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    version: int,
) -> Answer | asyncio.Future[Answer] | None:
    """The coordinator's answer; None if there is no coordinator now."""
    coordinator = _coordinator(node, transactional_id)
    if coordinator is None:
        return None
    request = _request(transactional_id, producer, partitions, version)
    reach(CrashPoint.BEFORE_VERIFICATION)
    answer: Answer | asyncio.Future[Answer] = node.cluster.peers.call(
        node.node_id, coordinator, request, VERSION
    )
    return answer


def confirms_at_once(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    version: int,
) -> bool:
    """Asks a coordinator that can answer now whether all partitions belong to the transaction; False if it cannot."""
    coordinator = node.transactions.loaded_for(transactional_id)
    if coordinator is None or not coordinator.answers_at_once:
        return False
    if coordinator.machine.is_ending(transactional_id):
        return False  # the question would wait for that
    answer = _ask(node, transactional_id, producer, partitions, version)
    # An answer that comes later is of no use here, as the caller asks again then.
    if not isinstance(answer, AddPartitionsToTxnResponse):
        return False
    reach(CrashPoint.AFTER_VERIFICATION)
    return _confirms_all(answer, partitions)


async def _confirmed_later(
    answer: asyncio.Future[Answer], partitions: Sequence[TopicPartition]
) -> Confirmations:
    return _confirmed(await answer, partitions)


def _confirms_all(answer: AddPartitionsToTxnResponse, partitions: Sequence[TopicPartition]) -> bool:
    if answer.error_code != ErrorCode.NONE:
        return False
    count = 0
    for transaction in answer.results_by_transaction:
        for topic in transaction.topic_results:
            for one in topic.results_by_partition:
                if one.partition_error_code != ErrorCode.NONE:
                    return False
            count += len(topic.results_by_partition)
    return count == len(partitions)


def _confirmed(answer: Answer | None, partitions: Sequence[TopicPartition]) -> Confirmations:
    if answer is None:
        return dict.fromkeys(partitions, NOT_AVAILABLE)
    reach(CrashPoint.AFTER_VERIFICATION)
    if isinstance(answer, UnreachableError):
        return dict.fromkeys(partitions, NOT_AVAILABLE)
    return _confirmations(answer, partitions)


def _coordinator(node: Node, transactional_id: str) -> int | None:
    topic = node.transactions.topic
    if topic is None:
        return None
    partition = coordinator_partition(transactional_id, topic.partition_count)
    leader = node.cluster.leader_of(topic, partition)
    return None if leader == NO_LEADER else leader


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


def _confirmations(
    answer: AddPartitionsToTxnResponse, partitions: Sequence[TopicPartition]
) -> Confirmations:
    if answer.error_code != ErrorCode.NONE:
        return dict.fromkeys(partitions, _outcome(answer.error_code))
    found = {
        TopicPartition(topic.name, one.partition_index): _outcome(one.partition_error_code)
        for transaction in answer.results_by_transaction
        for topic in transaction.topic_results
        for one in topic.results_by_partition
    }
    return {partition: found.get(partition, NOT_AVAILABLE) for partition in partitions}


def _outcome(error_code: int) -> Refused | None:
    return None if error_code == ErrorCode.NONE else Refused(ErrorCode(error_code))
