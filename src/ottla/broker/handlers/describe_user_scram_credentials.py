"""DescribeUserScramCredentials: for which mechanisms users have credentials."""

from __future__ import annotations

from collections import Counter

from ottla.access import CLUSTER, Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.core.security.scram_credentials import (
    MISSING_IN_DESCRIPTION,
    TWICE_IN_DESCRIPTION,
    Users,
)
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    node: Node, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    if not node.authorizer.allows(context.caller, Operation.DESCRIBE, CLUSTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(
            error_code=error,
            error_message=error.text,
            results=[
                DescribeUserScramCredentialsResult(
                    user="", error_code=error, error_message=error.text, credential_infos=[]
                )
                for _ in request.users or ()
            ],
        )
    users = node.cluster.catalog.users
    asked = Counter(user.name for user in request.users or ()) or Counter(users.names())
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        results=[_result(users, name, times) for name, times in asked.items()],
    )


def _result(users: Users, name: str, times: int) -> DescribeUserScramCredentialsResult:
    described = users.described(name)
    error, message = ErrorCode.NONE, None
    if times > 1:
        error, message = ErrorCode.DUPLICATE_RESOURCE, f"{TWICE_IN_DESCRIPTION}{name}"
        described = []
    elif not described:
        error, message = ErrorCode.RESOURCE_NOT_FOUND, f"{MISSING_IN_DESCRIPTION}{name}"
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=error,
        error_message=message,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in described
        ],
    )


API = serve(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, handle)
