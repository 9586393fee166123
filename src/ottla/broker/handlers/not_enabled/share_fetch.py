"""ShareFetch: share groups are not enabled."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
)


def handle(node: Node, request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    return ShareFetchResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        acquisition_lock_timeout_ms=0,
        responses=[],
        node_endpoints=[],
    )


API = serve(ShareFetchRequest, ShareFetchResponse, handle)
