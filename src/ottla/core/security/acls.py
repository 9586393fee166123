"""ACLs, and what they allow: the rules of Kafka's StandardAuthorizer.

A DENY that applies wins over every ALLOW. An ACL applies to a resource by its literal name, by a prefix, or as `*`. An
ALLOW of some operations implies others; a DENY implies none. The ACLs are found by whom they are about (`_Subject`),
so that a decision does not take longer with more ACLs of others.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final

from ottla.access import (
    ANY_NAME,
    EVERYBODY,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
)

_IMPLIED_BY: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


# The operations of which an ACL allows, or denies, an operation; an ACL may have all of several.
_DENIED_BY: Final = {operation: _bits(operation, Operation.ALL) for operation in Operation}
_ALLOWED_BY: Final = {
    operation: denied_by | _bits(*_IMPLIED_BY.get(operation, ()))
    for operation, denied_by in _DENIED_BY.items()
}


class AclOutcome(Enum):
    """What ACLs say about an operation on a resource."""

    ALLOWED = "an ACL allows it"
    DENIED = "an ACL denies it"
    NOT_ALLOWED = "the ACLs of the resource do not allow it"
    NO_ACLS = "the resource has no ACLs"


class AclTable:
    """All ACLs, by their ids; `version` rises with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._by_id: dict[str, AclBinding] = {}
        self._ids: dict[AclBinding, str] = {}
        self._types = {resource_type: _AclsOfType() for resource_type in ResourceType}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, acl: AclBinding) -> bool:
        return acl in self._ids

    def put(self, acl_id: str, acl: AclBinding) -> None:
        """Adds an ACL, or replaces the one with this id."""
        self.remove(acl_id)
        self.version += 1
        self._by_id[acl_id] = acl
        self._ids[acl] = acl_id
        self._types[acl.resource_type].add(acl)

    def remove(self, acl_id: str) -> None:
        """Removes an ACL, if there is one with this id."""
        acl = self._by_id.pop(acl_id, None)
        if acl is not None:
            self.version += 1
            del self._ids[acl]
            self._types[acl.resource_type].remove(acl)

    def items(self) -> list[tuple[str, AclBinding]]:
        """Every ACL with its id, in the order of their creation."""
        return list(self._by_id.items())

    def exactly(self, wanted: AclFilter) -> tuple[str, AclBinding] | None:
        """The ACL that a filter without open fields means."""
        acl = AclBinding._make(wanted)
        acl_id = self._ids.get(acl)
        return None if acl_id is None else (acl_id, acl)

    def decide(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> AclOutcome:
        """What the ACLs say about an operation of a principal, from an IP address, on a resource."""
        of_type = self._types[resource.type]
        allowed_by, denied_by = _ALLOWED_BY[operation], _DENIED_BY[operation]
        is_allowed = False
        for subject in of_type.subjects_of(principal, host):
            for grants in subject.that_apply_to(resource.name):
                if grants.denied & denied_by:
                    return AclOutcome.DENIED
                if grants.allowed & allowed_by:
                    is_allowed = True
        if is_allowed:
            return AclOutcome.ALLOWED
        if of_type.has_acls_of(resource.name):
            return AclOutcome.NOT_ALLOWED
        return AclOutcome.NO_ACLS

    def allows_some(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether an ACL allows the operation on some resource, or on resources with some prefix.

        As in Kafka, an ALLOW counts here only for its own operation, and not for what it implies.
        """
        subjects = self._types[resource_type].subjects_of(principal, host)
        bits = _DENIED_BY[operation]
        denied = _Names(subjects, lambda grants: grants.denied & bits)
        allowed = _Names(subjects, lambda grants: grants.allowed & bits)
        if ANY_NAME in denied.literal:
            return False
        if ANY_NAME in allowed.literal:
            return True
        return any(
            name not in denied.literal and not denied.has_prefix_of(name)
            for name in allowed.literal
        ) or any(not denied.has_prefix_of(prefix) for prefix in allowed.prefixes)


class _Grants:
    """What ACLs of one subject say about the resources of one pattern: bits of operations."""

    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = 0
        self.denied = 0

    @property
    def is_empty(self) -> bool:
        return not self.allowed and not self.denied

    def set(self, acl: AclBinding) -> None:
        if acl.permission is Permission.ALLOW:
            self.allowed |= 1 << acl.operation
        else:
            self.denied |= 1 << acl.operation

    def clear(self, acl: AclBinding) -> None:
        if acl.permission is Permission.ALLOW:
            self.allowed &= ~(1 << acl.operation)
        else:
            self.denied &= ~(1 << acl.operation)


class _Lengths:
    """The different lengths of prefixes."""

    __slots__ = ("_counts", "rising")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.rising: tuple[int, ...] = ()

    def add(self, prefix: str) -> None:
        length = len(prefix)
        self._counts[length] = self._counts.get(length, 0) + 1
        if self._counts[length] == 1:
            self.rising = tuple(sorted(self._counts))

    def remove(self, prefix: str) -> None:
        length = len(prefix)
        self._counts[length] -= 1
        if not self._counts[length]:
            del self._counts[length]
            self.rising = tuple(sorted(self._counts))


class _Subject:
    """The ACLs about one principal, or everybody, and one host, or every host."""

    __slots__ = ("_lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Grants] = {}
        self.prefixed: dict[str, _Grants] = {}
        self._lengths = _Lengths()

    @property
    def is_empty(self) -> bool:
        return not self.literal and not self.prefixed

    def add(self, acl: AclBinding) -> None:
        patterns = self._patterns(acl)
        grants = patterns.get(acl.name)
        if grants is None:
            grants = patterns[acl.name] = _Grants()
            if patterns is self.prefixed:
                self._lengths.add(acl.name)
        grants.set(acl)

    def remove(self, acl: AclBinding) -> None:
        patterns = self._patterns(acl)
        grants = patterns[acl.name]
        grants.clear(acl)
        if grants.is_empty:
            del patterns[acl.name]
            if patterns is self.prefixed:
                self._lengths.remove(acl.name)

    def _patterns(self, acl: AclBinding) -> dict[str, _Grants]:
        return self.prefixed if acl.pattern_type is PatternType.PREFIXED else self.literal

    def that_apply_to(self, name: str) -> Iterator[_Grants]:
        grants = self.literal.get(name)
        if grants is not None:
            yield grants
        if name != ANY_NAME:
            grants = self.literal.get(ANY_NAME)
            if grants is not None:
                yield grants
        for length in self._lengths.rising:
            if length > len(name):
                break
            grants = self.prefixed.get(name[:length])
            if grants is not None:
                yield grants


class _AclsOfType:
    """The ACLs of one type of resources."""

    def __init__(self) -> None:
        self._subjects: dict[tuple[str, str], _Subject] = {}
        # How many ACLs each pattern has, whomever they are about.
        self._counts: dict[tuple[PatternType, str], int] = {}
        self._lengths = _Lengths()

    def add(self, acl: AclBinding) -> None:
        key = (acl.principal, acl.host)
        subject = self._subjects.get(key)
        if subject is None:
            subject = self._subjects[key] = _Subject()
        subject.add(acl)
        pattern = (acl.pattern_type, acl.name)
        self._counts[pattern] = self._counts.get(pattern, 0) + 1
        if acl.pattern_type is PatternType.PREFIXED:
            self._lengths.add(acl.name)

    def remove(self, acl: AclBinding) -> None:
        key = (acl.principal, acl.host)
        subject = self._subjects[key]
        subject.remove(acl)
        if subject.is_empty:
            del self._subjects[key]
        pattern = (acl.pattern_type, acl.name)
        self._counts[pattern] -= 1
        if not self._counts[pattern]:
            del self._counts[pattern]
        if acl.pattern_type is PatternType.PREFIXED:
            self._lengths.remove(acl.name)

    def subjects_of(self, principal: str, host: str) -> list[_Subject]:
        """Those that a principal at an address is one of."""
        hosts = _written_forms(host)
        found = [
            self._subjects.get((who, where))
            for who in (principal, EVERYBODY)
            for where in (*hosts, ANY_NAME)
        ]
        return [subject for subject in found if subject is not None]

    def has_acls_of(self, name: str) -> bool:
        """Whether any ACL, of whomever, applies to the resource of this name."""
        counts = self._counts
        if (PatternType.LITERAL, name) in counts or (PatternType.LITERAL, ANY_NAME) in counts:
            return True
        return any(
            (PatternType.PREFIXED, name[:length]) in counts
            for length in self._lengths.rising
            if length <= len(name)
        )


class _Names:
    """The names and prefixes whose grants are of some kind."""

    def __init__(self, subjects: list[_Subject], is_meant: Callable[[_Grants], int]) -> None:
        self.literal = {
            name: None
            for subject in subjects
            for name, grants in subject.literal.items()
            if is_meant(grants)
        }
        self.prefixes = {
            prefix: None
            for subject in subjects
            for prefix, grants in subject.prefixed.items()
            if is_meant(grants)
        }
        self._lengths = sorted({len(prefix): None for prefix in self.prefixes})

    def has_prefix_of(self, name: str) -> bool:
        """Whether one of the prefixes is one of the name."""
        return any(name[:length] in self.prefixes for length in self._lengths)


def _written_forms(host: str) -> tuple[str, ...]:
    """An address as an ACL may have it: an IPv6 address also as Java writes it, all groups and no zero in front."""
    if ":" not in host:
        return (host,)
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return (host,)
    if address.ipv4_mapped is not None:
        return (str(address.ipv4_mapped),)
    groups = [f"{int(group, 16):x}" for group in address.exploded.partition("%")[0].split(":")]
    scope = f"%{address.scope_id}" if address.scope_id else ""
    return (str(address), ":".join(groups) + scope)
