"""Quotas of users, clients and addresses: alter, describe (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin_model.quotas import QuotaEntity, QuotaName, parts_of
from ottla.client.aio.admin.answers import Answers
from ottla.client.aio.admin.nodes import AnyNode
from ottla.client.aio.admin.requests import AdminCalls, ApiCall, timeout_in_seconds
from ottla.wire.messages import alter_client_quotas
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_ALL = "all"
_MATCH_EXACT, _MATCH_DEFAULT, _MATCH_ANY = 0, 1, 2

Quotas = dict[str, float]


class QuotaCalls(AdminCalls):
    """The calls about quotas."""

    @timeout_in_seconds
    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set quotas by name, such as `producer_byte_rate`; None removes one (Kafka 2.6 or later)."""

        def build(version: int, some: list[QuotaEntity], limit_ms: int) -> AlterClientQuotasRequest:
            return AlterClientQuotasRequest(
                entries=[_entry(entity, changes[entity]) for entity in some],
                validate_only=validate_only,
            )

        call = ApiCall(AlterClientQuotasRequest, build, _read_altered)
        nodes: AnyNode[QuotaEntity] = AnyNode("of", "entities")
        await self._requests.ask(changes, nodes, call, timeout)

    @timeout_in_seconds
    async def describe_client_quotas(
        self,
        *,
        user: str | QuotaName | None = None,
        client_id: str | QuotaName | None = None,
        ip: str | QuotaName | None = None,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas that were set, by entity (Kafka 2.6 or later).

        Without arguments these are all. `user="alice"` chooses entities with this user, with or without a client id;
        with `strict` only those of the user alone. `QuotaName.ANY` and `QuotaName.DEFAULT` may stand for a name.
        """
        components = [
            _component(kind, name) for kind, name in parts_of(user, client_id, ip).items()
        ]

        def build(version: int, keys: list[str], limit_ms: int) -> DescribeClientQuotasRequest:
            return DescribeClientQuotasRequest(components=components, strict=strict)

        call = ApiCall(DescribeClientQuotasRequest, build, _read_described)
        nodes: AnyNode[str] = AnyNode("of", "entities")
        return (await self._requests.ask([_ALL], nodes, call, timeout))[_ALL]


def _entry(
    entity: QuotaEntity, quotas: Mapping[str, float | None]
) -> alter_client_quotas.EntryData:
    return alter_client_quotas.EntryData(
        entity=[
            alter_client_quotas.EntityData(
                entity_type=kind, entity_name=name if isinstance(name, str) else None
            )
            for kind, name in entity.parts.items()
        ],
        ops=[
            OpData(key=name, value=0.0 if value is None else value, remove=value is None)
            for name, value in quotas.items()
        ],
    )


def _component(kind: str, name: str | QuotaName) -> ComponentData:
    match name:
        case QuotaName.ANY:
            return ComponentData(entity_type=kind, match_type=_MATCH_ANY, match=None)
        case QuotaName.DEFAULT:
            return ComponentData(entity_type=kind, match_type=_MATCH_DEFAULT, match=None)
    return ComponentData(entity_type=kind, match_type=_MATCH_EXACT, match=name)


def _read_altered(response: AlterClientQuotasResponse, answers: Answers[QuotaEntity, None]) -> None:
    """The outcomes by entity."""
    for entry in response.entries:
        entity = _entity((each.entity_type, each.entity_name) for each in entry.entity)
        answers.complete(entity, None, entry.error_code, entry.error_message)


def _read_described(
    response: DescribeClientQuotasResponse, answers: Answers[str, dict[QuotaEntity, Quotas]]
) -> None:
    """The quotas of all entities that match, sorted by their text."""
    found = {
        _entity((each.entity_type, each.entity_name) for each in entry.entity): {
            value.key: value.value for value in sorted(entry.values, key=lambda each: each.key)
        }
        for entry in response.entries or ()
    }
    in_order = {entity: found[entity] for entity in sorted(found, key=str)}
    answers.complete(_ALL, in_order, response.error_code, response.error_message)


def _entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """An entity of an answer, where no name stands for the default."""
    return QuotaEntity(
        **{
            kind.replace("-", "_"): QuotaName.DEFAULT if name is None else name
            for kind, name in parts
        }
    )
