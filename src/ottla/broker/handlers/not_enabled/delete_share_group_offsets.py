"""DeleteShareGroupOffsets: share groups are not enabled."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


def handle(
    node: Node, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="The version of API is not supported.",
        responses=[],
    )


API = serve(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, handle)
