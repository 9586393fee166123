"""Changing quotas: the checks of Kafka's controller, with its texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.core.outcomes import Refused
from ottla.core.security.quotas.entities import (
    CLIENT_ID,
    CLIENT_KINDS,
    ENTITY_TYPES,
    IP,
    USER,
    QuotaEntity,
    QuotaKind,
)
from ottla.errors import ErrorCode

LARGEST_FRACTION: Final = 1e-6
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
# The largest value of a whole number, and the type that Kafka calls it by; the other kinds may have fractions.
_WHOLE: Final[Mapping[str, tuple[int, str]]] = {
    QuotaKind.PRODUCER_BYTE_RATE: (LONG_MAX, "a LONG"),
    QuotaKind.CONSUMER_BYTE_RATE: (LONG_MAX, "a LONG"),
    QuotaKind.CONNECTION_CREATION_RATE: (INT_MAX, "an INT"),
}

Names = Mapping[str, str | None]


class QuotaOperation(NamedTuple):
    """Sets a quota, or with None removes it."""

    key: str
    value: float | None


class QuotaAlteration(NamedTuple):
    """The changes that a client wants for an entity, whose names are as it sent them."""

    names: Names
    operations: Sequence[QuotaOperation]


class Altered(NamedTuple):
    """The new quotas of entities, and for each entity of the request its names and why it was refused."""

    quotas: dict[QuotaEntity, Mapping[str, float]]
    outcomes: list[tuple[Names, Refused | None]]


def alter(
    current: Mapping[QuotaEntity, Mapping[str, float]],
    alterations: Sequence[QuotaAlteration],
    is_address: Callable[[str], bool],
) -> Altered:
    """Decides about the entities of a request; one that is refused does not keep the others from being changed."""
    quotas: dict[QuotaEntity, Mapping[str, float]] = {}
    outcomes: dict[tuple[tuple[str, str | None], ...], tuple[Names, Refused | None]] = {}
    for asked in alterations:
        identity = tuple(sorted(asked.names.items()))
        if identity in outcomes or _names_a_key_twice(asked.operations):
            text = f"Ignoring duplicate entity ClientQuotaEntity(entries={_java_map(asked.names)})"
            outcomes[identity] = (asked.names, _invalid(text))
        else:
            changed = _altered(current, asked, is_address)
            if isinstance(changed, Refused):
                outcomes[identity] = (asked.names, changed)
            else:
                outcomes[identity] = (asked.names, None)
                entity = QuotaEntity.of_names(asked.names)
                if changed != current.get(entity, {}):
                    quotas[entity] = changed
    return Altered(quotas, list(outcomes.values()))


def _names_a_key_twice(operations: Sequence[QuotaOperation]) -> bool:
    return len({operation.key for operation in operations}) < len(operations)


def _altered(
    current: Mapping[QuotaEntity, Mapping[str, float]],
    asked: QuotaAlteration,
    is_address: Callable[[str], bool],
) -> dict[str, float] | Refused:
    refused = _check_names(asked.names) or _check_combination(asked.names, is_address)
    if refused is not None:
        return refused
    kinds = (QuotaKind.CONNECTION_CREATION_RATE,) if IP in asked.names else CLIENT_KINDS
    quotas = dict(current.get(QuotaEntity.of_names(asked.names), {}))
    for key, value in asked.operations:
        if value is None:
            quotas.pop(key, None)
            continue
        refused = _check_value(kinds, key, value)
        if refused is not None:
            return refused
        quotas[key] = value
    return quotas


def _check_names(names: Names) -> Refused | None:
    if not names:
        return _invalid("Invalid empty client quota entity")
    for entity_type, name in names.items():
        if entity_type not in ENTITY_TYPES:
            return _invalid(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            return _invalid(f"Empty {entity_type} not supported")
    return None


def _check_combination(names: Names, is_address: Callable[[str], bool]) -> Refused | None:
    if IP not in names:
        return None
    if USER in names or CLIENT_ID in names:
        # The space is missing in Kafka, too.
        return _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = names[IP]
    if address is not None and not is_address(address):
        return _invalid(f"{address} is not a valid IP or resolvable host.")
    return None


def _check_value(kinds: Sequence[QuotaKind], key: str, value: float) -> Refused | None:
    if key not in kinds:
        return _invalid(f"Invalid configuration key {key}")
    if not value > 0:  # what is no number is not, either
        return _invalid(f"Quota {key} must be greater than 0")
    if key not in _WHOLE:
        # Kafka accepts an infinite one, which limits nothing.
        too_large = f"Proposed value for {key} is too large for a DOUBLE."
        return _invalid(too_large) if value == float("inf") else None
    largest, type_name = _WHOLE[key]
    if value > largest:
        return _invalid(f"Proposed value for {key} is too large for {type_name}.")
    if value % 1.0 > LARGEST_FRACTION:
        return _invalid(f"{key} cannot be a fractional value.")
    return None


def _java_map(names: Names) -> str:
    """The names as Java prints them."""
    known = [one for one in ENTITY_TYPES if one in names]
    others = [one for one in names if one not in ENTITY_TYPES]
    shown = (f"{one}={'null' if names[one] is None else names[one]}" for one in (*known, *others))
    return "{" + ", ".join(shown) + "}"


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
