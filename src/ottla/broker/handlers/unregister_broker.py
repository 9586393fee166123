"""UnregisterBroker: the cluster forgets a broker that is gone; one that runs stays."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    node: Node, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    refused = refuse_cluster(node, context.caller, Operation.ALTER) or _unregister(
        node, request.broker_id
    )
    return UnregisterBrokerResponse(
        error_code=error_of(refused), error_message=None if refused is None else refused.message
    )


def _unregister(node: Node, broker_id: int) -> Refused | None:
    cluster = node.cluster
    if broker_id not in cluster.registered:
        return Refused(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {broker_id} is not currently registered",
        )
    if broker_id in cluster.nodes:
        return Refused(
            ErrorCode.INVALID_REQUEST, f"Broker ID {broker_id} is running: stop it first"
        )
    cluster.unregister(broker_id)
    return None


API = serve(UnregisterBrokerRequest, UnregisterBrokerResponse, handle)
