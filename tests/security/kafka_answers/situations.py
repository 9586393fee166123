"""Situations: which ACLs are in force while a question is asked.

Every question names two resources that the ACLs of a situation are about, and two that they are not about: `mine` and
`mine-gone` begin as the ACLs' pattern says, `theirs` and `theirs-gone` do not. The ones that are gone do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.access import Operation, PatternType, Permission, ResourceType

MINE: Final = "mine"
CALLER: Final = "User:ANONYMOUS"
ALICE: Final = "User:alice"
ADMIN: Final = "User:admin"

TOPIC = ResourceType.TOPIC
GROUP = ResourceType.GROUP
CLUSTER = ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
USER = ResourceType.USER
DELEGATION_TOKEN = ResourceType.DELEGATION_TOKEN

# The operations that an ACL of each type can be about, as Kafka has them.
OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.ALL,
    ),
    GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.ALL,
    ),
    CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALL,
    ),
    TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
        Operation.ALL,
    ),
    DELEGATION_TOKEN: (Operation.DESCRIBE, Operation.ALL),
    USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS, Operation.ALL),
}
_WORDS = {
    TOPIC: "topics mine*",
    GROUP: "groups mine*",
    CLUSTER: "the cluster",
    TRANSACTIONAL_ID: "transactional ids mine*",
    DELEGATION_TOKEN: "tokens mine*",
    USER: "users mine*",
}


class Acl(NamedTuple):
    """One ACL; by default it allows the caller something from everywhere."""

    type: ResourceType
    operation: Operation
    name: str
    pattern: PatternType = PatternType.LITERAL
    permission: Permission = Permission.ALLOW
    principal: str = CALLER
    host: str = "*"


class Situation(NamedTuple):
    """`group` says in which line of the table it is, `label` which part of that line."""

    group: str
    label: str
    acls: frozenset[Acl]
    caller: str = CALLER

    def of(self, caller: str) -> Situation:
        """The same for another caller; a super user stays one."""
        if self.caller == ADMIN:
            return self
        acls = (
            acl._replace(principal=caller) if acl.principal == self.caller else acl
            for acl in self.acls
        )
        return self._replace(acls=frozenset(acls), caller=caller)

    def on(self, prefix: str) -> Situation:
        """The same with another beginning of names than `mine`."""
        acls = (
            acl._replace(name=prefix) if acl.name == MINE and acl.type is TOPIC else acl
            for acl in self.acls
        )
        group = self.group.replace(_WORDS[TOPIC], f"topics {prefix}*")
        return self._replace(group=group, acls=frozenset(acls))

    def with_acls(self, acls: frozenset[Acl]) -> Situation:
        return self._replace(acls=self.acls | acls)


def on_mine(
    type_: ResourceType, operation: Operation, permission: Permission = Permission.ALLOW
) -> Acl:
    """On what begins with `mine`; the cluster has only one name, and names of users have a type."""
    if type_ is CLUSTER:
        return Acl(type_, operation, "kafka-cluster", PatternType.LITERAL, permission)
    prefix = f"User:{MINE}" if type_ is USER else MINE
    return Acl(type_, operation, prefix, PatternType.PREFIXED, permission)


def all_on(types: Iterable[ResourceType]) -> frozenset[Acl]:
    """Everything on all resources of some types."""
    return frozenset(
        Acl(type_, Operation.ALL, "kafka-cluster" if type_ is CLUSTER else "*") for type_ in types
    )


EVERYTHING: Final = all_on(OPERATIONS)
SUPER_USER: Final = Situation("no ACLs, but a super user", "", frozenset(), ADMIN)


def matrix(types: Sequence[ResourceType]) -> Iterator[Situation]:
    """Every operation on every type that an API looks at: allowed alone, allowed beside the rest, denied."""
    others = [type_ for type_ in OPERATIONS if type_ not in types]
    yield Situation("no ACLs", "", frozenset())
    yield SUPER_USER
    yield Situation("everything", "", EVERYTHING)
    if types:
        yield Situation("everything on what this API does not look at", "", all_on(others))
    for type_ in types:
        rest = EVERYTHING - all_on([type_])
        words = _WORDS[type_]
        if len(types) > 1:
            yield Situation(f"everything but on {words.partition(' mine')[0]}", "", rest)
        for operation in OPERATIONS[type_]:
            acl = on_mine(type_, operation)
            yield Situation(f"only % on {words}", operation.name, frozenset([acl]))
            if len(types) > 1:
                yield Situation(
                    f"% on {words}, everything on the others", operation.name, rest | {acl}
                )
        for operation in OPERATIONS[type_]:
            denied = on_mine(type_, operation, Permission.DENY)
            yield Situation(
                f"everything, but % denied on {words}", operation.name, EVERYTHING | {denied}
            )


def _on(
    name: str,
    pattern: PatternType = PatternType.LITERAL,
    operation: Operation = Operation.DESCRIBE,
    permission: Permission = Permission.ALLOW,
    principal: str = CALLER,
    host: str = "*",
) -> Acl:
    return Acl(TOPIC, operation, name, pattern, permission, principal, host)


_PREFIXED, _DENY, _READ, _WRITE, _ALL = (
    PatternType.PREFIXED,
    Permission.DENY,
    Operation.READ,
    Operation.WRITE,
    Operation.ALL,
)
_PATTERNS: Final[dict[str, list[Acl]]] = {
    "literal mine": [_on("mine")],
    "literal MINE": [_on("MINE")],
    "literal mine*": [_on("mine*")],
    "literal *": [_on("*")],
    "prefix *": [_on("*", _PREFIXED)],
    "prefix m": [_on("m", _PREFIXED)],
    "prefix mine-": [_on("mine-", _PREFIXED)],
    "prefix mine and prefix the": [_on("mine", _PREFIXED), _on("the", _PREFIXED)],
    "literal mine for User:*": [_on("mine", principal="User:*")],
    "literal mine for User:bob": [_on("mine", principal="User:bob")],
    "literal mine for Group:ANONYMOUS": [_on("mine", principal="Group:ANONYMOUS")],
    "literal mine from 127.0.0.1": [_on("mine", host="127.0.0.1")],
    "literal mine from 127.0.0.2": [_on("mine", host="127.0.0.2")],
    "literal mine from localhost": [_on("mine", host="localhost")],
    "literal *, but literal mine denied": [_on("*"), _on("mine", permission=_DENY)],
    "literal mine, but literal * denied": [_on("mine"), _on("*", permission=_DENY)],
    "literal mine, but prefix m denied": [_on("mine"), _on("m", _PREFIXED, permission=_DENY)],
    "prefix m, but prefix mine denied": [
        _on("m", _PREFIXED),
        _on("mine", _PREFIXED, permission=_DENY),
    ],
    "prefix mine, but literal mine denied": [
        _on("mine", _PREFIXED),
        _on("mine", permission=_DENY),
    ],
    "literal mine, denied from 127.0.0.2": [
        _on("mine"),
        _on("mine", permission=_DENY, host="127.0.0.2"),
    ],
    "literal mine, denied from 127.0.0.1": [
        _on("mine"),
        _on("mine", permission=_DENY, host="127.0.0.1"),
    ],
    "literal mine, denied to User:bob": [
        _on("mine"),
        _on("mine", permission=_DENY, principal="User:bob"),
    ],
    "literal mine, denied to User:*": [
        _on("mine"),
        _on("mine", permission=_DENY, principal="User:*"),
    ],
    "READ of literal mine": [_on("mine", operation=_READ)],
    "READ of literal mine, DESCRIBE denied": [
        _on("mine", operation=_READ),
        _on("mine", permission=_DENY),
    ],
    "DESCRIBE of literal mine, READ denied": [
        _on("mine"),
        _on("mine", operation=_READ, permission=_DENY),
    ],
    "READ and WRITE of literal mine, READ denied": [
        _on("mine", operation=_READ),
        _on("mine", operation=_WRITE),
        _on("mine", operation=_READ, permission=_DENY),
    ],
    "ALL of literal mine, ALL denied": [
        _on("mine", operation=_ALL),
        _on("mine", operation=_ALL, permission=_DENY),
    ],
    "literal mine of groups": [Acl(GROUP, Operation.DESCRIBE, "mine")],
}
# ACLs of DESCRIBE on topics, unless they say otherwise.
PATTERNS: Final = tuple(Situation(label, "", frozenset(acls)) for label, acls in _PATTERNS.items())
