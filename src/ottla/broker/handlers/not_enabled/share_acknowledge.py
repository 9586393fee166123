"""ShareAcknowledge: share groups are not enabled."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)


def handle(
    node: Node, request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, responses=[], node_endpoints=[]
    )


API = serve(ShareAcknowledgeRequest, ShareAcknowledgeResponse, handle)
