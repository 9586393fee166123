"""DescribeDelegationToken: there are no tokens."""

from __future__ import annotations

from ottla.broker.handlers.not_enabled.delegation_tokens import tokens_error
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(
    node: Node, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=tokens_error(context.caller), tokens=[])


API = serve(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, handle)
