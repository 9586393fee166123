"""RenewDelegationToken: there are no delegation tokens."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.delegation_tokens import refuse_token
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


def handle(
    node: Node, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    refused = refuse_token(node, context.caller)
    return RenewDelegationTokenResponse(
        error_code=refused.error, expiry_timestamp_ms=refused.timestamp_ms
    )


API = serve(RenewDelegationTokenRequest, RenewDelegationTokenResponse, handle)
