"""Random ACLs and questions about them, for Kafka's authorizer and ours: a number makes always the same case."""

from __future__ import annotations

import random
from typing import NamedTuple

from ottla.access import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    Principal,
    Resource,
    ResourceType,
)
from ottla.core.security.access_decisions import AccessDecisions
from ottla.core.security.acls import AclTable

QUESTIONS = 60
SOME_QUESTIONS = 12

# Few of each, so that many ACLs apply to a question, and names that begin alike.
_NAMES = ("a", "ab", "abc", "abd", "b", "ba", "hard", "hardcode", "größe", "z*", "a.b-c_d")
_PATTERNS = (*_NAMES, "*", "*", "h", "ha", "gr", "z")
_PRINCIPALS = ("User:a", "User:b", "User:A", "Group:a", "User:CN=x,O=y z")
_HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
_TYPES = tuple(each for each in ResourceType if each > ResourceType.ANY)
_OPERATIONS = tuple(each for each in Operation if each > Operation.ANY)
_ASKED = tuple(each for each in _OPERATIONS if each is not Operation.ALL)


class Question(NamedTuple):
    """May the principal at the host do it with the resource? With no name: with some resource of the type?"""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str | None

    @property
    def line(self) -> str:
        start = f"{self.principal}\t{self.host}\t{self.operation:d}\t{self.resource_type:d}"
        return f"some\t{start}" if self.name is None else f"may\t{start}\t{self.name}"


class Case(NamedTuple):
    """An authorizer with its ACLs, and questions."""

    super_users: tuple[str, ...]
    allows_without_acls: bool
    acls: tuple[AclBinding, ...]
    questions: tuple[Question, ...]

    def lines(self) -> list[str]:
        """The case as AclDecider.java reads it."""
        return [
            f"case\t{';'.join(self.super_users)}\t{str(self.allows_without_acls).lower()}",
            *("acl\t" + "\t".join(map(_text, acl)) for acl in self.acls),
            *(question.line for question in self.questions),
            "end",
        ]

    def our_answers(self) -> str:
        """A letter for each question: a for allowed, d for denied."""
        table = AclTable()
        for number, acl in enumerate(self.acls):
            table.put(str(number), acl)
        decisions = AccessDecisions(
            table, self.super_users, allows_without_acls=self.allows_without_acls
        )
        return "".join("da"[_ask(decisions, question)] for question in self.questions)


def _text(part: object) -> str:
    return str(int(part)) if isinstance(part, int) else str(part)


def _ask(decisions: AccessDecisions, question: Question) -> bool:
    principal = Principal(*question.principal.split(":", 1))
    host, operation = question.host, question.operation
    if question.name is None:
        return decisions.allows_some(principal, host, operation, question.resource_type)
    resource = Resource(question.resource_type, question.name)
    return decisions.allows(principal, host, operation, resource)


def case_of(number: int) -> Case:
    rng = random.Random(number)
    # Fewer types and operations in a case make ACLs and questions meet.
    types = rng.sample(_TYPES, rng.choice((1, 1, 2)))
    operations = [
        *rng.sample(_ASKED, rng.choice((1, 2, 4))),
        Operation.DESCRIBE,
        Operation.READ,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ]
    denies = rng.choice((0.0, 0.2, 0.5))
    acls = [
        AclBinding(
            rng.choice(types),
            rng.choice(_PATTERNS),
            rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            rng.choice((*_PRINCIPALS, "User:*")),
            rng.choice((*_HOSTS, "*", "*")),
            rng.choice((*operations, Operation.ALL)),
            Permission.DENY if rng.random() < denies else Permission.ALLOW,
        )
        for _ in range(rng.choice((0, 1, 3, 8, 20)))
    ]
    questions = [
        Question(
            rng.choice(_PRINCIPALS),
            rng.choice(_HOSTS),
            rng.choice(operations),
            rng.choice(types),
            rng.choice(_NAMES) if number < QUESTIONS else None,
        )
        for number in range(QUESTIONS + SOME_QUESTIONS)
    ]
    return Case(
        super_users=("User:A",) if rng.random() < 0.3 else (),
        allows_without_acls=rng.random() < 0.4,
        acls=tuple(dict.fromkeys(acls)),
        questions=tuple(questions),
    )
