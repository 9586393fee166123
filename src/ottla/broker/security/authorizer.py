"""Whether callers may do what they ask for; a node has one authorizer, which its handlers ask."""

from __future__ import annotations

from typing import Protocol

from ottla.access import Operation, Resource, ResourceType
from ottla.broker.security.caller import Caller


class Authorizer(Protocol):
    """Decides, and tells the audit log what it decided.

    `logs_denied` is false where a denial is no attempt of the caller's: what it may not see is left out of a list.
    """

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed to everybody."""
        ...

    def allows(
        self,
        caller: Caller,
        operation: Operation,
        resource: Resource,
        *,
        logs_denied: bool = True,
    ) -> bool:
        """Whether the caller may do this with a resource."""
        ...

    def allows_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be a resource of this type with which the caller may do this."""
        ...


class OpenAuthorizer:
    """Allows everything, as a broker without an authorizer does."""

    is_open = True

    def allows(
        self,
        caller: Caller,
        operation: Operation,
        resource: Resource,
        *,
        logs_denied: bool = True,
    ) -> bool:
        return True

    def allows_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return True
