"""DescribeDelegationToken: there are no delegation tokens."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.delegation_tokens import refuse_token
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(
    node: Node, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    refused = refuse_token(node, context.caller)
    return DescribeDelegationTokenResponse(error_code=refused.error, tokens=[])


API = serve(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, handle)
