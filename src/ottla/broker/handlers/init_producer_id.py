"""InitProducerId: the identity of an idempotent producer."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.errors import ErrorCode
from ottla.ports import StorageError
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest


def handle(
    node: Node, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is not None:
        error = (
            ErrorCode.INVALID_REQUEST
            if not request.transactional_id
            else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        return InitProducerIdResponse(error_code=error, producer_epoch=-1)
    try:
        producer_id = node.cluster.next_producer_id()
    except StorageError:
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_epoch=-1
        )
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
    )
