"""ApiVersions: which APIs and versions are served."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.broker.node import Node
from ottla.broker.requests.api import Api, serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

# The feature by which clients learn that every transaction has an epoch of its own (KIP-890).
TRANSACTION_VERSION = "transaction.version"
FIRST_VERSION_WITH_SOFTWARE = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # as KIP-511 has it


def api_of(
    others: Iterable[Api[Any, Any]],
    *,
    last_version: int | None = None,
    has_transaction_version: bool = True,
) -> Api[ApiVersionsRequest, ApiVersionsResponse]:
    """The API that tells clients of the others and of itself.

    As a broker older than ours it has an earlier last version, and no feature transaction.version.
    """

    def handle(
        node: Node, request: ApiVersionsRequest | None, context: RequestContext
    ) -> ApiVersionsResponse:
        advertised = [api for api in served if node.has_metrics_page or not api.needs_metrics_page]
        response = _respond(advertised, request, context)
        if has_transaction_version:
            _add_features(response)
        return response

    api = serve(ApiVersionsRequest, ApiVersionsResponse, handle)
    if last_version is not None:
        api = api._replace(last_version=last_version)
    served = sorted((*others, api), key=lambda served: served.key)
    return api


def _respond(
    served: Sequence[Api[Any, Any]], request: ApiVersionsRequest | None, context: RequestContext
) -> ApiVersionsResponse:
    """The response; without a request (its version is not served) with an error."""
    error = ErrorCode.NONE
    if request is None:
        error = ErrorCode.UNSUPPORTED_VERSION
    elif context.version >= FIRST_VERSION_WITH_SOFTWARE:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            error = ErrorCode.INVALID_REQUEST
        elif context.software is not None:
            context.software.name, context.software.version = name, version
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(
                api_key=api.key, min_version=api.first_advertised, max_version=api.last_version
            )
            for api in served
        ],
    )


def _add_features(response: ApiVersionsResponse) -> None:
    response.supported_features = [
        SupportedFeatureKey(name=TRANSACTION_VERSION, min_version=0, max_version=2)
    ]
    response.finalized_features_epoch = 0
    response.finalized_features = [
        FinalizedFeatureKey(name=TRANSACTION_VERSION, max_version_level=2, min_version_level=2)
    ]
