"""InitProducerId: the identity of an idempotent producer, or of a transactional one."""

from __future__ import annotations

from functools import partial

from ottla.access import Operation
from ottla.broker.coordination.transactions import (
    ask_transaction,
    decide_after_end,
    fenced_before,
)
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_idempotent_producer, refuse_transactional_id
from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.requests import InitRequest
from ottla.errors import ErrorCode
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIRST_VERSION_WITH_PRODUCER_FENCED = 4


def handle(
    node: Node, request: InitProducerIdRequest, context: RequestContext
) -> NowOrLater[InitProducerIdResponse]:
    respond = partial(_respond, context.version)
    refused = _refuse(node, request, context) or _check(request)
    if refused is not None:
        return respond(refused)
    if request.transactional_id is None:
        return then(then(node.cluster.producer_ids.take_later(), _idempotent), respond)
    expected = (
        None
        if request.producer_id == NO_PRODUCER_ID
        else ProducerIdentity(request.producer_id, request.producer_epoch)
    )
    init = InitRequest(request.transactional_id, request.transaction_timeout_ms, expected)
    return ask_transaction(
        node.transactions,
        request.transactional_id,
        decide_after_end(request.transactional_id, lambda machine, turn: machine.init(turn, init)),
        respond,
    )


def _refuse(node: Node, request: InitProducerIdRequest, context: RequestContext) -> Refused | None:
    if request.transactional_id is None:
        return refuse_idempotent_producer(node, context.caller)
    caller, name = context.caller, request.transactional_id
    refused = refuse_transactional_id(node, caller, Operation.WRITE, name)
    if refused is None and request.enable_2pc:
        refused = refuse_transactional_id(node, caller, Operation.TWO_PHASE_COMMIT, name)
    return refused


def _check(request: InitProducerIdRequest) -> Refused | None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Refused(ErrorCode.INVALID_REQUEST)
    # Two-phase commit (KIP-939) needs the right to keep transactions open without a timeout, which no client has here.
    if request.enable_2pc:
        return Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return Refused(ErrorCode.UNSUPPORTED_VERSION) if request.keep_prepared_txn else None


def _idempotent(fresh: int | None) -> ProducerIdentity | Refused:
    if fresh is None:
        return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return ProducerIdentity(fresh, 0)


def _respond(version: int, result: ProducerIdentity | Refused) -> InitProducerIdResponse:
    if isinstance(result, Refused):
        error = fenced_before(FIRST_VERSION_WITH_PRODUCER_FENCED, version, result.error)
        return InitProducerIdResponse(
            error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
    )


API = serve(InitProducerIdRequest, InitProducerIdResponse, handle)
