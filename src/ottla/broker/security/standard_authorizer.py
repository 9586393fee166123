"""The authorizer that decides by the ACLs of the catalog, as Kafka's StandardAuthorizer does."""

from __future__ import annotations

from typing import Final

from ottla.access import Operation, Resource, ResourceType
from ottla.broker.security.audit import AuditLog
from ottla.broker.security.authorizer import Authorizer, OpenAuthorizer
from ottla.broker.security.caller import Caller
from ottla.config.authorization import super_user_principals
from ottla.config.broker import BrokerConfig
from ottla.core.security.access_decisions import AccessDecisions
from ottla.core.security.acls import AclTable
from ottla.events import EventLog

logger = EventLog(__name__)

_SOME: Final = "(any)"


class StandardAuthorizer:
    """Decides by ACLs; what it decided is counted, and is in the audit log. Other nodes may do everything."""

    is_open = False

    def __init__(self, decisions: AccessDecisions, audit: AuditLog) -> None:
        self._decisions = decisions
        self._audit = audit
        # How many attempts were allowed and denied; what is left out of a list was no attempt.
        self.allowed_count = 0
        self.denied_count = 0

    def allows(
        self,
        caller: Caller,
        operation: Operation,
        resource: Resource,
        *,
        logs_denied: bool = True,
    ) -> bool:
        if caller.is_node:
            return True
        if self._decisions.allows(caller.principal, caller.peer.host, operation, resource):
            if logs_denied:
                self.allowed_count += 1
                if self._audit.shows_allowed:
                    self._audit.allowed(caller, operation, resource)
            return True
        if logs_denied:
            self.denied_count += 1
            self._audit.denied(caller, operation, resource)
        return False

    def allows_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        if caller.is_node:
            return True
        is_allowed = self._decisions.allows_some(
            caller.principal, caller.peer.host, operation, resource_type
        )
        if is_allowed:
            self.allowed_count += 1
        else:
            self.denied_count += 1
            self._audit.denied(caller, operation, Resource(resource_type, _SOME))
        return is_allowed


def authorizer_of(config: BrokerConfig, acls: AclTable, audit: AuditLog) -> Authorizer:
    """The authorizer of a node with these options."""
    if not config.authorizer_class_name:
        if len(acls):
            logger.warning(
                "acls_without_effect",
                "there are %(acls)d ACLs, and nothing is denied: authorizer.class.name is not set",
                acls=len(acls),
            )
        return OpenAuthorizer()
    super_users = super_user_principals(config.super_users)
    decisions = AccessDecisions(
        acls, super_users, allows_without_acls=config.allow_everyone_if_no_acl_found
    )
    if not super_users and not len(acls) and not config.allow_everyone_if_no_acl_found:
        logger.warning(
            "access_denied_to_everybody",
            "there are no ACLs and no super.users: nobody may do anything, nor create ACLs",
        )
    return StandardAuthorizer(decisions, audit)
