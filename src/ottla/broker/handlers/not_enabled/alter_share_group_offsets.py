"""AlterShareGroupOffsets: share groups are not enabled."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


def handle(
    node: Node, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="The version of API is not supported.",
        responses=[],
    )


API = serve(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, handle)
