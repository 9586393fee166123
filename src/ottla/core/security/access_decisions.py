"""Whether a caller may do something: super users, ACLs, and what holds without any."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ottla.access import Operation, Principal, Resource, ResourceType
from ottla.core.security.acls import AclOutcome, AclTable

# How many decisions are remembered: with names as long as those of topics these are some megabytes.
MAX_REMEMBERED: Final = 1 << 14
# Groups and transactional ids may have longer names, which are decided anew each time.
MAX_REMEMBERED_NAME_CHARS: Final = 256
# The name with which Kafka asks about a resource that no ACL names.
SOME_NAME: Final = "hardcode"


class AccessDecisions:
    """Decides by the ACLs as they are now, and remembers its decisions until the next change of an ACL.

    Super users, as text like `User:admin`, may do everything. `allows_without_acls` is
    `allow.everyone.if.no.acl.found`: it is about resources without any ACL, of whomever.
    """

    def __init__(
        self, acls: AclTable, super_users: Collection[str], *, allows_without_acls: bool
    ) -> None:
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allows_without_acls = allows_without_acls
        self._version = acls.version
        self._remembered: dict[tuple[Principal, str, Operation, Resource], bool] = {}
        self._some_remembered: dict[tuple[Principal, str, Operation, ResourceType], bool] = {}

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """Whether a principal at an IP address may do this with a resource."""
        if self._version != self._acls.version:
            self._forget()
        key = (principal, host, operation, resource)
        decision = self._remembered.get(key)
        if decision is None:
            decision = self._decide(str(principal), host, operation, resource)
            if len(resource.name) <= MAX_REMEMBERED_NAME_CHARS:
                if len(self._remembered) >= MAX_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = decision
        return decision

    def allows_some(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be a resource of the type with which the principal may do this."""
        if self._version != self._acls.version:
            self._forget()
        key = (principal, host, operation, resource_type)
        decision = self._some_remembered.get(key)
        if decision is None:
            decision = self.allows(
                principal, host, operation, Resource(resource_type, SOME_NAME)
            ) or self._acls.allows_some(str(principal), host, operation, resource_type)
            if len(self._some_remembered) >= MAX_REMEMBERED:
                self._some_remembered.clear()
            self._some_remembered[key] = decision
        return decision

    def _decide(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        if principal in self._super_users:
            return True
        outcome = self._acls.decide(principal, host, operation, resource)
        if outcome is AclOutcome.NO_ACLS:
            return self._allows_without_acls
        return outcome is AclOutcome.ALLOWED

    def _forget(self) -> None:
        self._remembered.clear()
        self._some_remembered.clear()
        self._version = self._acls.version
