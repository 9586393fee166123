"""Which quotas a client asks about: exact names, the default, or any name of a type; the checks are Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.core.outcomes import Refused
from ottla.core.security.quotas.entities import (
    CLIENT_ID,
    ENTITY_TYPES,
    IP,
    USER,
    QuotaEntity,
)
from ottla.errors import ErrorCode


class Match(IntEnum):
    """How a type of an entity has to be."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2  # any name, or the default


class Component(NamedTuple):
    """What a filter wants of one type."""

    entity_type: str
    match: int
    name: str | None


class QuotaFilter(NamedTuple):
    """A filter; one that is strict lets no entity pass that has other types as well."""

    components: Sequence[Component]
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether an entity has what the filter wants."""
        names = entity.names()
        if self.is_strict and len(names) != len(self.components):
            return False
        for wanted in self.components:
            if wanted.entity_type not in names:
                return False
            if wanted.match != Match.SPECIFIED and names[wanted.entity_type] != wanted.name:
                return False
        return True


def check_filter(components: Iterable[Component]) -> Refused | None:
    """Refuses a filter that makes no sense."""
    types: list[str] = []
    for one in components:
        if not one.entity_type:
            return _invalid("Invalid empty entity type.")
        if one.entity_type in types:
            return _invalid(
                f"Entity type {one.entity_type} cannot appear more than once in the filter."
            )
        if one.entity_type not in ENTITY_TYPES:
            return Refused(
                ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}"
            )
        refused = _check_match(one)
        if refused is not None:
            return refused
        types.append(one.entity_type)
    if IP in types and (USER in types or CLIENT_ID in types):
        return _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return None


def _check_match(one: Component) -> Refused | None:
    if one.match not in list(Match):
        return _invalid(f"Unknown match type {one.match}")
    match = Match(one.match)
    if match is Match.EXACT:
        if one.name is None:
            return _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif one.name is not None:
        return _invalid(
            f"Request specified MATCH_TYPE_{match.name}, but also specified a match string."
        )
    return None


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
