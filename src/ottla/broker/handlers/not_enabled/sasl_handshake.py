"""SaslHandshake: the listener has no SASL, or the login is over; those of a login are answered by its gate."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def handle(
    node: Node, request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


API = serve(SaslHandshakeRequest, SaslHandshakeResponse, handle)
