"""Quotas of users, clients and addresses, as `Admin` takes and returns them (KIP-546)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class QuotaName(Enum):
    """What stands for a name where an entity of quotas, or a filter for them, has none."""

    DEFAULT = "default"
    """All users, clients or addresses without a quota of their own."""
    ANY = "any"
    """Any name, and the default; for filters only."""


@dataclass(frozen=True)
class QuotaEntity:
    """Whom a quota is for: a user, a client id, both together, or an address; `QuotaName.DEFAULT` is for all others.

    >>> QuotaEntity(user="alice")
    QuotaEntity(user='alice')
    >>> print(QuotaEntity(user="alice", client_id=QuotaName.DEFAULT))
    user alice, default client-id
    """

    user: str | QuotaName | None = None
    client_id: str | QuotaName | None = None
    ip: str | QuotaName | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a quota is for a user, a client_id or an ip: name one")
        if QuotaName.ANY in self.parts.values():
            raise ValueError("QuotaName.ANY is for filters: write a name, or QuotaName.DEFAULT")

    @property
    def parts(self) -> dict[str, str | QuotaName]:
        """The names by Kafka's words for their types: user, client-id, ip."""
        return parts_of(self.user, self.client_id, self.ip)

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {name}" if isinstance(name, str) else f"default {kind}"
            for kind, name in self.parts.items()
        )

    def __repr__(self) -> str:
        given = (
            f"{kind.replace('-', '_')}={name!r}"
            if isinstance(name, str)
            else f"{kind.replace('-', '_')}={name}"
            for kind, name in self.parts.items()
        )
        return f"QuotaEntity({', '.join(given)})"


def parts_of(
    user: str | QuotaName | None, client_id: str | QuotaName | None, ip: str | QuotaName | None
) -> dict[str, str | QuotaName]:
    """The names that are given, by Kafka's words for their types."""
    given = {"user": user, "client-id": client_id, "ip": ip}
    return {kind: name for kind, name in given.items() if name is not None}
