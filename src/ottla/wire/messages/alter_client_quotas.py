"""AlterClientQuotas: sets and removes the quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Float64, Int16, Int32, String


@struct
class EntityData:
    entity_type: String
    entity_name: String | None


@struct
class OpData:
    key: String
    value: Float64
    remove: Bool


@struct
class EntryData:
    entity: list[EntityData]
    ops: list[OpData]


@message(api=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[EntryData]
    validate_only: Bool


@struct
class EntryDataResult:
    error_code: Int16
    error_message: String | None
    entity: list[EntityData]


@message(api=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = wire(default=0)
    entries: list[EntryDataResult]
