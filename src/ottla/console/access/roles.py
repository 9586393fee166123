"""What a user of the console may do."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from ottla.client.admin_model.acls import AclOperation


class Role(IntEnum):
    """Each role may do what the ones before it may. The cluster's ACLs decide as well."""

    STRANGER = 0
    """Log in."""
    VIEWER = 1
    """Look at everything."""
    OPERATOR = 2
    """Also reset offsets, abort transactions, produce and delete records, replay and drop dead letters."""
    ADMIN = 3
    """Also create, change and delete topics, configs and schemas."""

    @property
    def title(self) -> str:
        """The name that the page and messages show."""
        return self.name.lower()


def role_of_operations(operations: Collection[AclOperation]) -> Role:
    """The role of a user of the cluster who has these rights on the cluster."""
    if AclOperation.DESCRIBE not in operations:
        return Role.STRANGER
    if AclOperation.ALTER_CONFIGS in operations:
        return Role.ADMIN
    return Role.OPERATOR if AclOperation.ALTER in operations else Role.VIEWER
