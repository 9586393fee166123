"""All quotas of a cluster, and which of them applies to a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from ottla.core.security.quotas.entities import (
    CLIENT_KINDS,
    DEFAULT,
    QuotaEntity,
    QuotaKind,
)

ClientKey = tuple[str, str]
"""The clients that share a quota: a user and a client id, of which one may be empty."""

_Level = tuple[str | None, str | None]
_T = TypeVar("_T")


class AppliedQuota(NamedTuple):
    """A limit, and the clients that it limits together."""

    limit: float
    shared_by: ClientKey


class QuotaTable:
    """The quotas by entity; `limits_clients` and `limits_addresses` say whether there are any of that sort."""

    def __init__(self) -> None:
        self.entities: dict[QuotaEntity, Mapping[str, float]] = {}
        self.limits_clients = False
        self.limits_addresses = False
        self._clients: Final[dict[QuotaKind, dict[_Level, float]]] = {
            kind: {} for kind in CLIENT_KINDS
        }
        self._addresses: dict[str, float] = {}
        # The address of each `ip`, which may be a host name.
        self._resolved: dict[str, str] = {}

    def apply(self, entity: QuotaEntity, quotas: Mapping[str, float], address: str | None) -> None:
        """Replaces the quotas of an entity; `address` is that of an `ip` that is not the default."""
        if entity.ip is not None:
            self._apply_to_addresses(entity, quotas, address)
        if quotas:
            self.entities[entity] = quotas
        else:
            self.entities.pop(entity, None)
        if entity.ip is None:
            for kind, limits in self._clients.items():
                _put(limits, (entity.user, entity.client_id), quotas.get(kind))
        self.limits_clients = any(self._clients.values())
        self.limits_addresses = bool(self._addresses)

    def _apply_to_addresses(
        self, entity: QuotaEntity, quotas: Mapping[str, float], address: str | None
    ) -> None:
        assert entity.ip is not None
        before = self._resolved.pop(entity.ip, None)
        if before is not None:
            self._addresses.pop(before, None)
        now = entity.ip if address is None else address
        rate = quotas.get(QuotaKind.CONNECTION_CREATION_RATE)
        if rate is not None:
            self._resolved[entity.ip] = now
            self._addresses[now] = rate

    def limits(self, kind: QuotaKind) -> bool:
        """Whether some client has a quota of this kind."""
        return bool(self._clients[kind])

    def of_client(self, kind: QuotaKind, user: str, client_id: str) -> AppliedQuota | None:
        """The quota of a client: the first that there is, from the pair of user and client id to any client."""
        limits = self._clients[kind]
        if not limits:
            return None
        if not client_id:
            return self._of_user(limits, user)
        for name in (user, DEFAULT):
            limit = limits.get((name, client_id))
            if limit is None:
                limit = limits.get((name, DEFAULT))
            if limit is not None:
                return AppliedQuota(limit, (user, client_id))
            limit = limits.get((name, None))
            if limit is not None:
                return AppliedQuota(limit, (user, ""))
        limit = limits.get((None, client_id))
        if limit is None:
            limit = limits.get((None, DEFAULT))
        return None if limit is None else AppliedQuota(limit, ("", client_id))

    def _of_user(self, limits: Mapping[_Level, float], user: str) -> AppliedQuota | None:
        """The quota of a client without a client id: in Kafka those of client ids, the default too, are not its."""
        for level in ((user, None), (DEFAULT, None)):
            limit = limits.get(level)
            if limit is not None:
                return AppliedQuota(limit, (user, ""))
        return None

    def of_address(self, address: str) -> float | None:
        """How many connections an address may open in a second; None for any number."""
        limit = self._addresses.get(address)
        return self._addresses.get(DEFAULT) if limit is None else limit


def _put(limits: dict[_T, float], key: _T, limit: float | None) -> None:
    if limit is None:
        limits.pop(key, None)
    else:
        limits[key] = limit
