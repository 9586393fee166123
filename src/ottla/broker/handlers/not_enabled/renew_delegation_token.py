"""RenewDelegationToken: there are no tokens."""

from __future__ import annotations

from ottla.broker.handlers.not_enabled.delegation_tokens import timestamp_of, tokens_error
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


def handle(
    node: Node, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    error = tokens_error(context.caller)
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=timestamp_of(error))


API = serve(RenewDelegationTokenRequest, RenewDelegationTokenResponse, handle)
