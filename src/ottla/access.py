"""Who may do what: principals, resources, and what ACLs say about them, with Kafka's names and codes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self


class ResourceType(IntEnum):
    """What an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names resources; ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
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


class Permission(IntEnum):
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


class Resource(NamedTuple):
    """Something that ACLs protect."""

    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, "kafka-cluster")
"""The cluster as a whole."""


def topic(name: str) -> Resource:
    """A topic as a resource."""
    return Resource(ResourceType.TOPIC, name)


def group(group_id: str) -> Resource:
    """A group as a resource."""
    return Resource(ResourceType.GROUP, group_id)


def transactional_id(name: str) -> Resource:
    """A transactional id as a resource."""
    return Resource(ResourceType.TRANSACTIONAL_ID, name)
