"""What a user of the console may do."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """Each role may do what the ones before it may. The cluster's ACLs decide as well."""

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
