"""AlterClientQuotas: sets and removes quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.access import Operation
from ottla.broker.catalog_changes import Decision
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.addresses import canonical_address, resolved_address
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused
from ottla.core.security.quotas.alteration import (
    Altered,
    Names,
    QuotaAlteration,
    QuotaOperation,
    alter,
)
from ottla.core.security.quotas.entities import IP, QuotaEntity
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports.futures import settled
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResult,
)

logger = EventLog(__name__)

# Each is looked up, and a name server may be slow.
MAX_HOST_NAMES: Final = 100
# All are decided at once; in Kafka a request may make 10,000 changes.
MAX_ELEMENTS: Final = 1 << 14


def handle(
    node: Node, request: AlterClientQuotasRequest, context: RequestContext
) -> Reply[AlterClientQuotasResponse]:
    alterations = [_alteration(entry) for entry in request.entries]
    refused = refuse_cluster(node, context.caller, Operation.ALTER_CONFIGS)
    if refused is not None:
        return _response([(asked.names, refused) for asked in alterations])
    return _alter(node, alterations, request.validate_only)


def _alteration(entry: EntryData) -> QuotaAlteration:
    return QuotaAlteration(
        {each.entity_type: each.entity_name for each in entry.entity},
        [QuotaOperation(each.key, None if each.remove else each.value) for each in entry.ops],
    )


async def _alter(
    node: Node, alterations: Sequence[QuotaAlteration], validate_only: bool
) -> AlterClientQuotasResponse:
    cluster = node.cluster
    addresses = await _addresses(alterations)
    all_altered: list[Altered] = []

    def decide() -> Decision[None]:
        current = cluster.catalog.quotas.entities
        altered = alter(current, alterations, lambda name: name in addresses)
        all_altered.append(altered)
        changes = cluster.catalog.set_quotas(altered.quotas, addresses)
        return Decision({} if validate_only else changes, None)

    failed = await settled(cluster.change(decide))
    altered = all_altered[-1]
    if failed is not None:
        return _response([(names, each or failed) for names, each in altered.outcomes])
    if not validate_only:
        _log(altered.quotas)
    return _response(altered.outcomes)


async def _addresses(alterations: Sequence[QuotaAlteration]) -> dict[str, str]:
    """The addresses of the `ip` names that have one."""
    names = dict.fromkeys(asked.names[IP] for asked in alterations if asked.names.get(IP))
    found: dict[str, str] = {}
    looked_up = 0
    for name in names:
        assert name is not None
        address = canonical_address(name)
        if address is None and looked_up < MAX_HOST_NAMES:
            looked_up += 1
            address = await resolved_address(name)
        if address is not None:
            found[name] = address
    return found


def _log(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
    for entity, values in quotas.items():
        logger.info(
            "quotas_changed",
            "the quotas of %(entity)s are %(quotas)s",
            entity=str(entity),
            quotas=", ".join(f"{key}={value:g}" for key, value in values.items()) or "none",
        )


def _response(outcomes: Sequence[tuple[Names, Refused | None]]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResult(
                error_code=ErrorCode.NONE if refused is None else refused.error,
                error_message=None if refused is None else refused.text,
                entity=[
                    EntityData(entity_type=entity_type, entity_name=name)
                    for entity_type, name in names.items()
                ],
            )
            for names, refused in outcomes
        ]
    )


API = serve(AlterClientQuotasRequest, AlterClientQuotasResponse, handle, max_elements=MAX_ELEMENTS)
