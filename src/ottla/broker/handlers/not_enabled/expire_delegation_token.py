"""ExpireDelegationToken: there are no tokens."""

from __future__ import annotations

from ottla.broker.handlers.not_enabled.delegation_tokens import timestamp_of, tokens_error
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


def handle(
    node: Node, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    error = tokens_error(context.caller)
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=timestamp_of(error))


API = serve(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, handle)
