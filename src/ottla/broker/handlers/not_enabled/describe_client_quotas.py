"""DescribeClientQuotas: nothing has a quota; the filter is checked as by Kafka."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
USER, CLIENT_ID, IP = "user", "client-id", "ip"


def handle(
    node: Node, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    refused = _check(request.components)
    if refused is not None:
        return DescribeClientQuotasResponse(
            error_code=refused.error, error_message=refused.text, entries=None
        )
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=[])


def _check(components: Iterable[ComponentData]) -> Refused | None:
    types = set()
    for one in components:
        if not one.entity_type:
            return _invalid("Invalid empty entity type.")
        if one.entity_type in types:
            return _invalid(
                f"Entity type {one.entity_type} cannot appear more than once in the filter."
            )
        if one.entity_type not in (USER, CLIENT_ID, IP):
            return Refused(
                ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}"
            )
        refused = _check_match(one)
        if refused is not None:
            return refused
        types.add(one.entity_type)
    if IP in types and len(types) > 1:
        return _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return None


def _check_match(one: ComponentData) -> Refused | None:
    if one.match_type not in (EXACT, DEFAULT, SPECIFIED):
        return _invalid(f"Unknown match type {one.match_type}")
    if one.match_type == EXACT and one.match is None:
        return _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if one.match_type != EXACT and one.match is not None:
        name = "DEFAULT" if one.match_type == DEFAULT else "SPECIFIED"
        return _invalid(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
    return None


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


API = serve(DescribeClientQuotasRequest, DescribeClientQuotasResponse, handle)
