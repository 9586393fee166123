"""DescribeAcls: there is no authorizer."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
)


def handle(
    node: Node, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )


API = serve(DescribeAclsRequest, DescribeAclsResponse, handle)
