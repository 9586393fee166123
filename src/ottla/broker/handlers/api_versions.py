"""ApiVersions: which APIs and versions are served."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.broker.features import FEATURES, Feature
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

FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_0 = 4
NO_NODE = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # as KIP-511 has it


def api_of(
    others: Iterable[Api[Any, Any]],
    *,
    last_version: int | None = None,
    features: Sequence[Feature] = FEATURES,
) -> Api[ApiVersionsRequest, ApiVersionsResponse]:
    """The API that tells clients of the others and of itself.

    As a broker older than ours it has an earlier last version, and other features.
    """

    def handle(
        node: Node, request: ApiVersionsRequest | None, context: RequestContext
    ) -> ApiVersionsResponse:
        error = _error(node, request, context)
        advertised = [api for api in served if node.has_metrics_page or not api.needs_metrics_page]
        response = _respond(advertised, error)
        if features and error is not ErrorCode.REBOOTSTRAP_REQUIRED:
            _add_features(response, features, context.version)
        return response

    api = serve(ApiVersionsRequest, ApiVersionsResponse, handle)
    if last_version is not None:
        api = api._replace(last_version=last_version)
    served = sorted((*others, api), key=lambda served: served.key)
    return api


def _error(node: Node, request: ApiVersionsRequest | None, context: RequestContext) -> ErrorCode:
    """Why a request is refused; without a request, its version is not served."""
    if request is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if context.version >= FIRST_VERSION_WITH_SOFTWARE:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ErrorCode.INVALID_REQUEST
        context.caller.software_name, context.caller.software_version = name, version
    return _identity_error(node, request)


def _identity_error(node: Node, request: ApiVersionsRequest) -> ErrorCode:
    """Whether the client means to talk to another broker (KIP-1242); versions before 5 do not say."""
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is None:
        return ErrorCode.NONE
    is_here = (request.cluster_id, request.node_id) == (node.cluster.cluster_id, node.node_id)
    return ErrorCode.NONE if is_here else ErrorCode.REBOOTSTRAP_REQUIRED


def _respond(served: Sequence[Api[Any, Any]], error: ErrorCode) -> ApiVersionsResponse:
    if error is ErrorCode.REBOOTSTRAP_REQUIRED:
        served = ()
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(
                api_key=api.key, min_version=api.first_advertised, max_version=api.last_version
            )
            for api in served
        ],
    )


def _add_features(response: ApiVersionsResponse, features: Sequence[Feature], version: int) -> None:
    response.supported_features = [
        SupportedFeatureKey(
            name=feature.name, min_version=feature.first_level, max_version=feature.last_level
        )
        for feature in features
        # Clients of earlier versions fail for a range that begins with 0 (KAFKA-17011).
        if feature.first_level > 0 or version >= FIRST_VERSION_WITH_LEVEL_0
    ]
    response.finalized_features_epoch = 0
    response.finalized_features = [
        FinalizedFeatureKey(
            name=feature.name, max_version_level=feature.level, min_version_level=feature.level
        )
        for feature in features
        if feature.level
    ]
