"""UnregisterBroker: the cluster forgets a broker that is gone; one that runs stays."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused, error_of
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    node: Node, request: UnregisterBrokerRequest, context: RequestContext
) -> NowOrLater[UnregisterBrokerResponse]:
    refused = refuse_cluster(node, context.caller, Operation.ALTER)
    if refused is not None:
        return _respond(refused)
    return then(node.cluster.unregister(request.broker_id), _respond)


def _respond(refused: Refused | None) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(
        error_code=error_of(refused), error_message=None if refused is None else refused.message
    )


API = serve(UnregisterBrokerRequest, UnregisterBrokerResponse, handle)
