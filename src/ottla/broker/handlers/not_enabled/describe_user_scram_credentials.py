"""DescribeUserScramCredentials: no user has credentials."""

from __future__ import annotations

from collections import Counter

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

MISSING = "Attempt to describe a user credential that does not exist: "
TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


def handle(
    node: Node, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    asked = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        results=[_result(name, times) for name, times in asked.items()],
    )


def _result(name: str, times: int) -> DescribeUserScramCredentialsResult:
    is_twice = times > 1
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.DUPLICATE_RESOURCE if is_twice else ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"{TWICE if is_twice else MISSING}{name}",
        credential_infos=[],
    )


API = serve(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, handle)
