"""ACLs, as `Admin` takes and returns them: the words of `ottla.access`, named as in Kafka's Admin."""

from __future__ import annotations

from ottla.access import AclBinding, AclFilter, PatternType
from ottla.access import Operation as AclOperation
from ottla.access import Permission as AclPermission
from ottla.access import ResourceType as AclResourceType

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResourceType",
    "PatternType",
]
