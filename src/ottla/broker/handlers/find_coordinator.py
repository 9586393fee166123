"""FindCoordinator: which broker coordinates a group or a transactional id; none does yet."""

from __future__ import annotations

import logging
from functools import cache

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

REQUEST = FindCoordinatorRequest
FIRST_BATCHED_VERSION = 4
GROUP, TRANSACTION = 0, 1

logger = logging.getLogger(__name__)


@cache
def _tell_once(key_type: int) -> None:
    """Clients ask again and again in silence; somebody who wonders why nothing happens finds this."""
    wanted = {GROUP: "consumer groups", TRANSACTION: "transactions"}.get(key_type)
    if wanted is not None:
        logger.warning("a client asks for %s, which this version does not have yet", wanted)


def handle(
    node: Node, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    _tell_once(request.key_type)
    if request.key_type not in (GROUP, TRANSACTION):
        error = ErrorCode.INVALID_REQUEST
    if context.version < FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(
            error_code=error, error_message=error.text, node_id=-1, host="", port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=error, error_message=error.text
            )
            for key in request.coordinator_keys
        ]
    )
