"""DescribeClientQuotas: the quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Generator

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused
from ottla.core.security.quotas.filters import Component, QuotaFilter, check_filter
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

ENTITIES_PER_STEP = 64


def handle(
    node: Node, request: DescribeClientQuotasRequest, context: RequestContext
) -> Reply[DescribeClientQuotasResponse]:
    wanted = QuotaFilter(
        [Component(each.entity_type, each.match_type, each.match) for each in request.components],
        request.strict,
    )
    refused = refuse_cluster(node, context.caller, Operation.DESCRIBE_CONFIGS) or check_filter(
        wanted.components
    )
    if refused is not None:
        return _refused(refused)
    return node.cluster.share.answer(_described(node, wanted))


def _described(
    node: Node, wanted: QuotaFilter
) -> Generator[None, None, DescribeClientQuotasResponse]:
    entries = []
    for number, (entity, quotas) in enumerate(list(node.cluster.catalog.quotas.entities.items())):
        if not number % ENTITIES_PER_STEP:
            yield
        if wanted.matches(entity):
            entries.append(
                EntryData(
                    entity=[
                        EntityData(entity_type=entity_type, entity_name=name)
                        for entity_type, name in entity.names().items()
                    ],
                    values=[ValueData(key=key, value=value) for key, value in quotas.items()],
                )
            )
    return DescribeClientQuotasResponse(
        error_code=ErrorCode.NONE, error_message="", entries=entries
    )


def _refused(refused: Refused) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=refused.error, error_message=refused.text, entries=None
    )


API = serve(DescribeClientQuotasRequest, DescribeClientQuotasResponse, handle)
