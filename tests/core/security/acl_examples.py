"""ACLs of tests, written shortly."""

from __future__ import annotations

from ottla.access import AclBinding, Operation, PatternType, Permission, ResourceType

ALICE = "User:alice"
BOB = "User:bob"


def acl(
    name: str,
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    return AclBinding(resource_type, name, pattern_type, principal, host, operation, permission)


def prefix(
    name: str, operation: Operation = Operation.READ, permission: Permission = Permission.ALLOW
) -> AclBinding:
    return acl(name, operation, permission, pattern_type=PatternType.PREFIXED)
