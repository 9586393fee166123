"""DescribeShareGroupOffsets: share groups are not enabled."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)


def handle(
    node: Node, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(
                group_id=asked.group_id,
                topics=[],
                error_code=ErrorCode.UNSUPPORTED_VERSION,
            )
            for asked in request.groups
        ]
    )


API = serve(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, handle)
