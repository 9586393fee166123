"""CreateDelegationToken: there are no tokens."""

from __future__ import annotations

from ottla.access import Operation, Principal, Resource, ResourceType
from ottla.broker.handlers.not_enabled.delegation_tokens import timestamp_of, tokens_error
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


def handle(
    node: Node, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    requester = context.caller.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    error = tokens_error(context.caller)
    if error is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED:
        # Kafka's brokers look at these before its controller finds that tokens are off.
        if owner != requester and not node.authorizer.allows(
            context.caller, Operation.CREATE_TOKENS, Resource(ResourceType.USER, str(owner))
        ):
            error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        elif any(renewer.principal_type != requester.kind for renewer in request.renewers):
            error = ErrorCode.INVALID_PRINCIPAL_TYPE
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=timestamp_of(error),
        expiry_timestamp_ms=timestamp_of(error),
        max_timestamp_ms=timestamp_of(error),
        token_id="",
        hmac=b"",
    )


API = serve(CreateDelegationTokenRequest, CreateDelegationTokenResponse, handle)
