"""Creating and deleting ACLs: which are accepted, what a request changes, and how the catalog has them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.access import (
    CLUSTER,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.core.outcomes import Refused
from ottla.core.security.acls import AclTable
from ottla.errors import ErrorCode

MAX_ACLS: Final = 50_000
# Kafka's limit on what one request changes.
MAX_CHANGES_PER_REQUEST: Final = 10_000
# The longest group id or principal that an ACL can name.
MAX_TEXT_CHARS: Final = 4096


def check_new_acl(acl: AclBinding) -> Refused | None:
    """Whether an ACL can be created."""
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER.name:
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    if not acl.name:
        return _invalid("Invalid empty resource name")
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _invalid(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return _invalid(f"Invalid permissionType {acl.permission.name}")
    if ":" not in acl.principal:
        return _invalid(
            f"Could not parse principal from `{acl.principal[:MAX_TEXT_CHARS]}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if max(len(acl.name), len(acl.principal), len(acl.host)) > MAX_TEXT_CHARS:
        return _invalid(f"A text of an ACL is longer than {MAX_TEXT_CHARS} characters")
    return None


def check_filter(wanted: AclFilter) -> Refused | None:
    """Whether ACLs can be deleted by a filter."""
    unknown = wanted.unknown_part
    return None if unknown is None else _invalid(f"Unknown {unknown}.")


def new_acls(acls: AclTable, wanted: Iterable[AclBinding]) -> list[AclBinding] | Refused:
    """Those that do not exist yet, each once; refused if they would be too many."""
    new = list(dict.fromkeys(acl for acl in wanted if acl not in acls))
    if len(new) > MAX_CHANGES_PER_REQUEST:
        return _too_many(f"Cannot create more than {MAX_CHANGES_PER_REQUEST} acls at once")
    if len(acls) + len(new) > MAX_ACLS:
        return _too_many(f"There would be more than {MAX_ACLS} acls; there are {len(acls)}")
    return new


def check_deletion(count: int) -> Refused | None:
    """Whether one request may delete so many ACLs."""
    if count > MAX_CHANGES_PER_REQUEST:
        return _too_many(
            f"Cannot remove more than {MAX_CHANGES_PER_REQUEST} acls in a single delete operation."
        )
    return None


def acl_id(acl: AclBinding) -> str:
    """The id of an ACL: the same one for the same ACL, whoever creates it."""
    text = ascii(list(stored_acl(acl).values()))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def stored_acl(acl: AclBinding) -> dict[str, Any]:
    """An ACL as the catalog has it."""
    return {
        "resource_type": acl.resource_type.name,
        "name": acl.name,
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def acl_of_stored(stored: Mapping[str, Any]) -> AclBinding:
    """The ACL of an entry of the catalog."""
    return AclBinding(
        ResourceType[stored["resource_type"]],
        stored["name"],
        PatternType[stored["pattern_type"]],
        stored["principal"],
        stored["host"],
        Operation[stored["operation"]],
        Permission[stored["permission"]],
    )


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def _too_many(message: str) -> Refused:
    return Refused(ErrorCode.POLICY_VIOLATION, message)
