"""AddPartitionsToTxn: adds partitions to a transaction, or verifies that they are in it; several at once since v4."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ottla.access import Operation
from ottla.broker.coordination.coordinator import When
from ottla.broker.coordination.transactions import (
    decide_after_end,
    fenced_before,
    find_transaction,
    refuse_partitions,
)
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import (
    refuse_cluster,
    refuse_topic,
    refuse_transactional_id,
)
from ottla.core.catalog import INTERNAL_TOPICS
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_BATCHED_VERSION = 4
FIRST_VERSION_OF_TRANSACTION_V2 = 5
FIRST_VERSION_WITH_PRODUCER_FENCED = 2


def handle(
    node: Node, request: AddPartitionsToTxnRequest, context: RequestContext
) -> NowOrLater[AddPartitionsToTxnResponse]:
    version = VERSION_2 if context.version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1
    if context.version >= FIRST_BATCHED_VERSION:
        # These come from leaders of partitions, which have checked their clients.
        refused = refuse_cluster(node, context.caller, Operation.CLUSTER_ACTION)
        if refused is not None:
            return AddPartitionsToTxnResponse(error_code=refused.error)
        return respond_to_all(
            [_answer(node, transaction, version) for transaction in request.transactions],
            lambda results: AddPartitionsToTxnResponse(results_by_transaction=results),
        )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return respond_to_all(
        [_answer_client(node, context, transaction)], partial(_response_of_one, context.version)
    )


def _response_of_one(
    version: int, results: list[AddPartitionsToTxnResult]
) -> AddPartitionsToTxnResponse:
    (result,) = results
    if version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        for topic in result.topic_results:
            for partition in topic.results_by_partition:
                error = ErrorCode(partition.partition_error_code)
                partition.partition_error_code = fenced_before(
                    FIRST_VERSION_WITH_PRODUCER_FENCED, version, error
                )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


def _answer_client(
    node: Node, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> NowOrLater[AddPartitionsToTxnResult]:
    def is_forbidden(topic: str) -> bool:
        # Only brokers add internal topics, for their clients.
        return (
            topic in INTERNAL_TOPICS
            or refuse_topic(node, context.caller, Operation.WRITE, topic) is not None
        )

    refused = refuse_transactional_id(
        node, context.caller, Operation.WRITE, transaction.transactional_id
    )
    if refused is not None:
        return _result(transaction, refused)
    return _answer(node, transaction, VERSION_1, is_forbidden)


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition)
        for topic in transaction.topics
        for partition in topic.partitions
    ]


def _answer(
    node: Node,
    transaction: AddPartitionsToTxnTransaction,
    version: int,
    is_forbidden: Callable[[str], bool] = lambda topic: False,
) -> NowOrLater[AddPartitionsToTxnResult]:
    partitions = _partitions(transaction)
    respond = partial(_result, transaction)
    transactional_id = transaction.transactional_id
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    if not transaction.verify_only:
        refused = refuse_partitions(node.cluster, partitions, is_forbidden)
        if refused is not None:
            return respond(refused)
    coordinator = find_transaction(node.transactions, transactional_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    # Now, because the first batches of a transaction wait for it, and the requests behind them on their connection.
    if transaction.verify_only:
        return coordinator.ask(
            lambda machine, turn, _: machine.verify(transactional_id, producer, partitions),
            respond,
            When.NOW,
        )
    return coordinator.ask(
        decide_after_end(
            transactional_id,
            lambda machine, turn: machine.add_partitions(
                turn, transactional_id, producer, partitions, version
            ),
        ),
        respond,
        When.NOW,
    )


def _result(
    transaction: AddPartitionsToTxnTransaction, outcome: Sequence[Refused | None] | Refused | None
) -> AddPartitionsToTxnResult:
    """The outcome is that of each partition in the order of the request, or one for all of them."""
    following: Iterator[ErrorCode]
    if outcome is None or isinstance(outcome, Refused):
        following = itertools.repeat(error_of(outcome))
    else:
        following = map(error_of, outcome)
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=next(following)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


API = serve(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, handle, max_elements=1 << 15)
