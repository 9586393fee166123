"""EndTxn: a producer commits or aborts its transaction."""

from __future__ import annotations

from functools import partial

from ottla.access import Operation
from ottla.broker.coordination.transactions import ask_transaction, fenced_before
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_transactional_id
from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.core.txn.requests import EndRequest
from ottla.core.txn.states import Result
from ottla.errors import ErrorCode
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FIRST_VERSION_WITH_PRODUCER_FENCED = 2
FIRST_VERSION_OF_TRANSACTION_V2 = 5


def handle(
    node: Node, request: EndTxnRequest, context: RequestContext
) -> NowOrLater[EndTxnResponse]:
    respond = partial(_respond, context.version)
    refused = refuse_transactional_id(
        node, context.caller, Operation.WRITE, request.transactional_id
    )
    if refused is not None:
        return respond(refused)
    end = EndRequest(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        Result.COMMIT if request.committed else Result.ABORT,
        VERSION_2 if context.version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1,
    )
    return ask_transaction(
        node.transactions,
        request.transactional_id,
        lambda machine, turn, _: machine.end(turn, end),
        respond,
    )


def _respond(version: int, result: ProducerIdentity | Refused) -> EndTxnResponse:
    if isinstance(result, Refused):
        error = fenced_before(FIRST_VERSION_WITH_PRODUCER_FENCED, version, result.error)
        return EndTxnResponse(
            error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
    return EndTxnResponse(
        error_code=ErrorCode.NONE,
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
    )


API = serve(EndTxnRequest, EndTxnResponse, handle)
