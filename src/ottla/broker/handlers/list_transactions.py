"""ListTransactions: the transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from ottla.broker.node import Node
from ottla.broker.request import Answer, RequestContext
from ottla.broker.together import together
from ottla.core.txn.requests import DescribedTransaction
from ottla.core.txn.states import State
from ottla.errors import ErrorCode
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

REQUEST = ListTransactionsRequest
ANY_DURATION = -1
NOT_BEGUN = -1


def handle(node: Node, request: ListTransactionsRequest, context: RequestContext) -> Answer:
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = re.compile(request.transactional_id_pattern)
        except re.error:
            return _failed(ErrorCode.INVALID_REGULAR_EXPRESSION)
    parts = node.transactions.ask_all(lambda machine, turn: machine.list_transactions())
    now_ms = node.cluster.clock.now_ms()
    return together(parts, partial(_response, request, pattern, now_ms))


def _failed(error: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=error, unknown_state_filters=[], transaction_states=[]
    )


def _response(
    request: ListTransactionsRequest,
    pattern: re.Pattern[str] | None,
    now_ms: int,
    parts: Sequence[list[DescribedTransaction] | ErrorCode],
) -> ListTransactionsResponse:
    titles = {state.title for state in State}
    error = ErrorCode.NONE
    listed: list[DescribedTransaction] = []
    for part in parts:
        if not isinstance(part, ErrorCode):
            listed += part
        elif part is not ErrorCode.NOT_COORDINATOR:  # who leads that partition now lists its ids
            error = part
    return ListTransactionsResponse(
        error_code=error,
        unknown_state_filters=[name for name in request.state_filters if name not in titles],
        transaction_states=[
            TransactionState(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                transaction_state=found.state.title,
            )
            for found in listed
            if _is_wanted(found, request, pattern, now_ms)
        ],
    )


def _is_wanted(
    found: DescribedTransaction,
    request: ListTransactionsRequest,
    pattern: re.Pattern[str] | None,
    now_ms: int,
) -> bool:
    if request.state_filters and found.state.title not in request.state_filters:
        return False
    if request.producer_id_filters and found.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter > ANY_DURATION and (
        found.started_at_ms == NOT_BEGUN or now_ms - found.started_at_ms <= request.duration_filter
    ):
        return False
    return pattern is None or pattern.fullmatch(found.transactional_id) is not None
