"""ExpireDelegationToken: there are no delegation tokens."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.delegation_tokens import refuse_token
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


def handle(
    node: Node, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    refused = refuse_token(node, context.caller)
    return ExpireDelegationTokenResponse(
        error_code=refused.error, expiry_timestamp_ms=refused.timestamp_ms
    )


API = serve(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, handle)
