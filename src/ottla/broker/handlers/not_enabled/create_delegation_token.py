"""CreateDelegationToken: there are no delegation tokens."""

from __future__ import annotations

from ottla.access import Principal
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.caller import Caller
from ottla.broker.security.delegation_tokens import (
    INVALID_PRINCIPAL,
    NOT_ALLOWED,
    NOT_AUTHORIZED,
    TokenRefusal,
    may_create_for,
    refuse_token,
)
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

USER = "User"


def handle(
    node: Node, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    requester = context.caller.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or USER, request.owner_principal_name)
    refused = _refuse(node, request, context.caller, owner)
    return CreateDelegationTokenResponse(
        error_code=refused.error,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=refused.timestamp_ms,
        expiry_timestamp_ms=refused.timestamp_ms,
        max_timestamp_ms=refused.timestamp_ms,
        token_id="",
        hmac=b"",
    )


def _refuse(
    node: Node, request: CreateDelegationTokenRequest, caller: Caller, owner: Principal
) -> TokenRefusal:
    refused = refuse_token(node, caller)
    if refused is NOT_ALLOWED:
        return refused
    if not may_create_for(node, caller, owner):
        return NOT_AUTHORIZED
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return INVALID_PRINCIPAL
    return refused


API = serve(CreateDelegationTokenRequest, CreateDelegationTokenResponse, handle)
