"""ShareGroupDescribe: share groups are not enabled."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(
    node: Node, request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[
            DescribedGroup(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                group_id=group_id,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=[],
            )
            for group_id in request.group_ids
        ]
    )


API = serve(ShareGroupDescribeRequest, ShareGroupDescribeResponse, handle)
