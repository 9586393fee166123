"""What the requests for delegation tokens have in common: as in a Kafka without a secret key, there are no tokens."""

from __future__ import annotations

from typing import NamedTuple

from ottla.access import ANONYMOUS, Operation, Principal, Resource, ResourceType
from ottla.broker.node import Node
from ottla.broker.security.caller import Caller
from ottla.errors import ErrorCode


class TokenRefusal(NamedTuple):
    """The error, and the number that Kafka answers where a timestamp would be."""

    error: ErrorCode
    timestamp_ms: int


NOT_ALLOWED = TokenRefusal(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1)
NOT_AUTHORIZED = TokenRefusal(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, -1)
INVALID_PRINCIPAL = TokenRefusal(ErrorCode.INVALID_PRINCIPAL_TYPE, -1)
DISABLED = TokenRefusal(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)


def refuse_token(node: Node, caller: Caller) -> TokenRefusal:
    """Only clients that have authenticated themselves may ask, and those are told that there are no tokens."""
    protocol = next(
        (
            listener.protocol
            for listener in node.options.config.all_listeners
            if listener.name == caller.listener
        ),
        "PLAINTEXT",
    )
    if protocol == "PLAINTEXT" or (protocol == "SSL" and caller.principal == ANONYMOUS):
        return NOT_ALLOWED
    return DISABLED


def may_create_for(node: Node, caller: Caller, owner: Principal) -> bool:
    """Whether the caller may create tokens of an owner; of itself, always."""
    return owner == caller.principal or node.authorizer.allows(
        caller, Operation.CREATE_TOKENS, Resource(ResourceType.USER, str(owner))
    )
