"""ListTransactions: the transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import all_parts
from ottla.broker.requests.patterns import Pattern, PatternError
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import may_see_transactional_id
from ottla.core.outcomes import Refused
from ottla.core.txn.requests import DescribedTransaction, TransactionFilter
from ottla.core.txn.states import TxnState
from ottla.errors import ErrorCode
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

IDS_PER_STEP = 16


async def handle(
    node: Node, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    share = node.cluster.share
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = await share.elsewhere(Pattern, request.transactional_id_pattern)
        except PatternError:
            return _failed(ErrorCode.INVALID_REGULAR_EXPRESSION)
    parts = await all_parts(
        node.transactions.ask_all(lambda machine, turn: machine.list_transactions())
    )
    wanted = TransactionFilter(
        frozenset(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        node.cluster.clock.now_ms(),
    )
    response = await share.run(_respond(node, context, request, wanted, parts))
    if pattern is not None:
        listed = response.transaction_states
        matching = await pattern.matching([state.transactional_id for state in listed])
        response.transaction_states = [
            state for state in listed if state.transactional_id in matching
        ]
    return response


def _failed(error: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=error, unknown_state_filters=[], transaction_states=[]
    )


def _respond(
    node: Node,
    context: RequestContext,
    request: ListTransactionsRequest,
    wanted: TransactionFilter,
    parts: Sequence[list[DescribedTransaction] | Refused],
) -> Generator[None, None, ListTransactionsResponse]:
    titles = {state.title for state in TxnState}
    response = ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[name for name in request.state_filters if name not in titles],
        transaction_states=[],
    )
    for part in parts:
        if isinstance(part, Refused):
            # The leader of that partition lists its ids.
            if part.error is not ErrorCode.NOT_COORDINATOR:
                response.error_code = part.error
            continue
        for number, found in enumerate(part):
            if not number % IDS_PER_STEP:
                yield
            if wanted.includes(found) and may_see_transactional_id(
                node, context.caller, found.transactional_id
            ):
                response.transaction_states.append(
                    TransactionState(
                        transactional_id=found.transactional_id,
                        producer_id=found.producer_id,
                        transaction_state=found.state.title,
                    )
                )
    return response


API = serve(ListTransactionsRequest, ListTransactionsResponse, handle)
