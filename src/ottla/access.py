"""Who may do what: principals, resources, and what ACLs say about them, with Kafka's names and codes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Self

ANY_NAME: Final = "*"
"""As the name of a literal pattern: every resource of the type; as a host: every host."""

EVERYBODY: Final = "User:*"
"""As the principal of an ACL: every principal."""


class _Code(IntEnum):
    """A number in requests; one that this version does not know is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls(0) if isinstance(value, int) else None


class ResourceType(_Code):
    """What an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How an ACL names resources; ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    """What is done with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Principal(NamedTuple):
    """Who asks; its text is TYPE:NAME, and the type of all that authenticate themselves is User."""

    kind: str
    name: str

    @classmethod
    def user(cls, name: str) -> Self:
        """The principal of a user."""
        return cls("User", name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal.user("ANONYMOUS")
"""The principal of clients that did not authenticate themselves."""


_TOPIC: Final = ResourceType.TOPIC


class Resource(NamedTuple):
    """Something that ACLs protect."""

    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, "kafka-cluster")
"""The cluster as a whole."""


SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What can be done with a resource of each type."""


def topic(name: str) -> Resource:
    """A topic as a resource."""
    # As Resource(...), in half the time: every produce and fetch asks for it.
    return tuple.__new__(Resource, (_TOPIC, name))


def group(group_id: str) -> Resource:
    """A group as a resource."""
    return Resource(ResourceType.GROUP, group_id)


def transactional_id(name: str) -> Resource:
    """A transactional id as a resource."""
    return Resource(ResourceType.TRANSACTIONAL_ID, name)


class AclBinding(NamedTuple):
    """An ACL: who may, or may not, do what with which resources, and from where.

    `principal` is text like `User:alice`, or `User:*` for everybody; `host` is an IP address, or `*` for every host.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        """In one line, for messages."""
        where = "" if self.host == "*" else f" from {self.host}"
        return (
            f"{self.permission.name} {self.principal}{where} {self.operation.name} "
            f"on {self.resource_type.name} {self.pattern_type.name} {self.name!r}"
        )

    def to_filter(self) -> AclFilter:
        """A filter that matches this ACL only."""
        return AclFilter(*self)


class AclFilter(NamedTuple):
    """Which ACLs are meant; None and ANY leave a field open.

    With the pattern type MATCH these are the ACLs that apply to the resource of that name: literal ones, `*`, and
    prefixes of the name.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Whether this ACL is meant."""
        return (
            (self.resource_type is ResourceType.ANY or self.resource_type is acl.resource_type)
            and self._matches_pattern(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and (self.operation is Operation.ANY or self.operation is acl.operation)
            and (self.permission is Permission.ANY or self.permission is acl.permission)
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        if self.pattern_type is PatternType.MATCH:
            if self.name is None:
                return True
            if acl.pattern_type is PatternType.PREFIXED:
                return self.name.startswith(acl.name)
            return acl.name in (self.name, ANY_NAME)
        return (self.pattern_type is PatternType.ANY or self.pattern_type is acl.pattern_type) and (
            self.name is None or self.name == acl.name
        )

    @property
    def is_exact(self) -> bool:
        """Whether no field is open: the filter means one ACL at most."""
        return (
            None not in (self.name, self.principal, self.host)
            and self.resource_type is not ResourceType.ANY
            and self.pattern_type not in (PatternType.ANY, PatternType.MATCH)
            and self.operation is not Operation.ANY
            and self.permission is not Permission.ANY
        )

    @property
    def unknown_part(self) -> str | None:
        """The part that has a code which this version does not know, in Kafka's words; None if there is none."""
        if self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN:
            return "patternFilter"
        if self.operation is Operation.UNKNOWN or self.permission is Permission.UNKNOWN:
            return "entryFilter"
        return None
