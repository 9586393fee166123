"""Quotas and what they are about: users, client ids, pairs of both, and addresses (KIP-546, KIP-612)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Self

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
# The name that stands for all of a type that have no quota by their name; an entity has no empty name otherwise.
DEFAULT: Final = ""
# The types in the order in which Java prints them.
ENTITY_TYPES: Final = (IP, CLIENT_ID, USER)


class QuotaKind(StrEnum):
    """What a quota limits; the value is its key."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


CLIENT_KINDS: Final = (
    QuotaKind.PRODUCER_BYTE_RATE,
    QuotaKind.CONSUMER_BYTE_RATE,
    QuotaKind.REQUEST_PERCENTAGE,
    QuotaKind.CONTROLLER_MUTATION_RATE,
)


class QuotaEntity(NamedTuple):
    """What a quota is about: None for a type that it does not have, DEFAULT for the default of a type."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @classmethod
    def of_names(cls, names: Mapping[str, str | None]) -> Self:
        """The entity with these names by type; None is the default of a type."""
        return cls(*(names[kind] or DEFAULT if kind in names else None for kind in _FIELDS))

    def names(self) -> dict[str, str | None]:
        """The names by type, as clients send them: None is the default of a type."""
        return {
            kind: name or None
            for kind, name in ((IP, self.ip), (CLIENT_ID, self.client_id), (USER, self.user))
            if name is not None
        }

    @property
    def key(self) -> str:
        """The entity as the key of an entry of the catalog: TYPE=NAME/TYPE, without a name for a default."""
        return "/".join(
            kind if name is None else f"{kind}={_escaped(name)}"
            for kind, name in self.names().items()
        )

    @classmethod
    def of_key(cls, key: str) -> Self:
        """The entity with this key."""
        names: dict[str, str | None] = {}
        for part in key.split("/"):
            kind, equals, name = part.partition("=")
            names[kind] = _unescaped(name) if equals else None
        return cls.of_names(names)

    def __str__(self) -> str:
        shown = ", ".join(
            f"{kind} {'default' if name is None else repr(name)}"
            for kind, name in self.names().items()
        )
        return shown or "nothing"


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def _unescaped(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")


_FIELDS: Final = (USER, CLIENT_ID, IP)
