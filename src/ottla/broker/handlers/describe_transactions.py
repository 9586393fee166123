"""DescribeTransactions: the state of transactional ids (KIP-664)."""

from __future__ import annotations

from functools import partial

from ottla.access import Operation
from ottla.broker.coordination.transactions import ask_transaction
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import may_see_topic, refuse_transactional_id
from ottla.core.outcomes import Refused
from ottla.core.txn.requests import DescribedTransaction
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

DIVISIONS = Divisions((Division("transactional_ids", "transaction_states", repeated=Repeated()),))


def handle(
    node: Node, request: DescribeTransactionsRequest, context: RequestContext
) -> NowOrLater[DescribeTransactionsResponse]:
    return respond_to_all(
        [
            _describe(node, context, transactional_id)
            for transactional_id in request.transactional_ids
        ],
        lambda states: DescribeTransactionsResponse(transaction_states=states),
    )


def _describe(
    node: Node, context: RequestContext, transactional_id: str
) -> NowOrLater[TransactionState]:
    respond = partial(_respond, node, context, transactional_id)
    refused = refuse_transactional_id(node, context.caller, Operation.DESCRIBE, transactional_id)
    if refused is not None:
        return respond(refused)
    return ask_transaction(
        node.transactions,
        transactional_id,
        lambda machine, turn, _: machine.describe(transactional_id),
        respond,
    )


def _respond(
    node: Node,
    context: RequestContext,
    transactional_id: str,
    found: DescribedTransaction | Refused | None,
) -> TransactionState:
    if found is None:
        found = Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    if isinstance(found, Refused):
        return TransactionState(
            error_code=found.error,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    by_topic: dict[str, list[int]] = {}
    for topic, partition in found.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_at_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=some)
            for topic, some in by_topic.items()
            if may_see_topic(node, context.caller, topic)
        ],
    )


API = serve(DescribeTransactionsRequest, DescribeTransactionsResponse, handle, divisions=DIVISIONS)
