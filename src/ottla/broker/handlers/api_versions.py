"""ApiVersions: which APIs and versions are served."""

from __future__ import annotations

import re

from ottla.broker.node import Node
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

REQUEST = ApiVersionsRequest
# The feature by which clients learn that every transaction has an epoch of its own (KIP-890).
TRANSACTION_VERSION = "transaction.version"
FIRST_VERSION_WITH_SOFTWARE = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # as KIP-511 has it


def handle(
    node: Node, request: ApiVersionsRequest | None, context: RequestContext
) -> ApiVersionsResponse:
    """Answers; without a request (its version is not served) with the error and what is served."""
    from ottla.broker.requests.apis import SERVED  # the table lists this module

    error = ErrorCode.NONE
    if request is None:
        error = ErrorCode.UNSUPPORTED_VERSION
    elif context.version >= FIRST_VERSION_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        error = ErrorCode.INVALID_REQUEST
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(
                api_key=api.key, min_version=api.first_advertised, max_version=api.last_version
            )
            for api in SERVED.values()
        ],
        supported_features=[
            SupportedFeatureKey(name=TRANSACTION_VERSION, min_version=0, max_version=2)
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=TRANSACTION_VERSION, max_version_level=2, min_version_level=2)
        ],
    )
