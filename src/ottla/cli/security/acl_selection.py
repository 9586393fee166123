"""Which ACLs the options of `ottla acls` stand for, by the rules of kafka-acls."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from ottla.access import CLUSTER
from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import UsageError
from ottla.client.admin_model.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)

_EVERYWHERE: Final = "*"
_Operations = tuple[AclOperation, ...]
# As Kafka's tool: what can be done with each type of resource, beside ALL.
_SUPPORTED: Final[dict[AclResourceType, _Operations]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (
        AclOperation.DESCRIBE,
        AclOperation.WRITE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
# What --producer and --consumer stand for.
_OF_PRODUCERS: Final[dict[AclResourceType, _Operations]] = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_OF_CONSUMERS: Final[dict[AclResourceType, _Operations]] = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}
_NO_RESOURCE: Final = "give --topic, --group, --cluster or --transactional-id"
# ACLs by what they are about: type, name, pattern type.
Pattern = tuple[AclResourceType, str, PatternType]


def wanted_acls(arguments: Arguments) -> list[AclBinding]:
    """The ACLs that `create` adds."""
    if not arguments.allowed and not arguments.denied:
        raise UsageError(
            "nobody is named", "give --allow-principal User:NAME or --deny-principal User:NAME"
        )
    for host in (*arguments.allowed_hosts, *arguments.denied_hosts):
        _check_host(host)
    return [
        AclBinding(*pattern, principal, host, operation, permission)
        for pattern, operations in _operations_by_pattern(arguments).items()
        for permission, principals, hosts in _rules(arguments)
        for principal in principals
        for host in hosts
        for operation in operations
    ]


def wanted_filters(arguments: Arguments) -> list[AclFilter]:
    """Which ACLs `delete` is for; without principals all of the resources."""
    by_pattern = _operations_by_pattern(arguments)
    if not arguments.allowed and not arguments.denied:
        if arguments.operations or arguments.producer or arguments.consumer:
            raise UsageError(
                "whose ACLs are they?",
                "give --allow-principal or --deny-principal, or leave out what they may do",
            )
        return [AclFilter(*pattern) for pattern in by_pattern]
    return [
        AclFilter(*pattern, principal, host, operation, permission)
        for pattern, operations in by_pattern.items()
        for permission, principals, hosts in _rules(arguments)
        for principal in principals
        for host in hosts
        for operation in operations
    ]


def resource_filters(arguments: Arguments) -> list[AclFilter]:
    """The filters of `list`, one for each resource; without any, the one for all ACLs."""
    return [AclFilter(*pattern) for pattern in _patterns(arguments)] or [AclFilter()]


def _rules(
    arguments: Arguments,
) -> Iterable[tuple[AclPermission, list[str], list[str]]]:
    for permission, principals, hosts, flag in (
        (AclPermission.ALLOW, arguments.allowed, arguments.allowed_hosts, "--allow"),
        (AclPermission.DENY, arguments.denied, arguments.denied_hosts, "--deny"),
    ):
        if hosts and not principals:
            raise UsageError(f"{flag}-host needs {flag}-principal")
        yield permission, [principal_of(each) for each in principals], hosts or [_EVERYWHERE]


def _check_host(text: str) -> None:
    """Brokers compare the text with the address of a client: an ACL for a name or a network never applies."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if text != _EVERYWHERE:
            raise UsageError(
                f"{text!r} is no IP address, and no client would match it",
                "give an address, not a name or a network, or leave it out for all",
            ) from None


def principal_of(text: str) -> str:
    """A principal, which has a type and a name."""
    kind, colon, name = text.strip().partition(":")
    if not (kind and colon and name):
        raise UsageError(f"{text!r} is not a principal", f"write User:{text or 'NAME'}")
    return f"{kind}:{name}"


def _operations_by_pattern(arguments: Arguments) -> dict[Pattern, _Operations]:
    """What the ACLs of each resource are about."""
    patterns = _patterns(arguments)
    if arguments.producer or arguments.consumer:
        found = _of_roles(arguments, patterns)
    else:
        if arguments.idempotent:
            raise UsageError("--idempotent goes with --producer")
        operations = tuple(map(_operation, arguments.operations)) or (AclOperation.ALL,)
        found = dict.fromkeys(patterns, tuple(dict.fromkeys(operations)))
    if not found:
        raise UsageError("no resource is given", _NO_RESOURCE)
    for (kind, _, _), operations in found.items():
        _check_operations(kind, operations)
    return found


def _of_roles(arguments: Arguments, patterns: list[Pattern]) -> dict[Pattern, _Operations]:
    """The operations of --producer and --consumer."""
    if arguments.operations or arguments.denied or arguments.denied_hosts:
        raise UsageError(
            "--producer and --consumer say what is allowed",
            "leave out --operation, --deny-principal and --deny-host",
        )
    if not arguments.topics:
        role = "--producer" if arguments.producer else "--consumer"
        raise UsageError(f"{role} needs a topic", "give --topic TOPIC, or --topic '*' for all")
    if arguments.consumer and not arguments.groups:
        raise UsageError("--consumer needs a group", "give --group GROUP, or --group '*' for all")
    found: dict[Pattern, _Operations] = {}
    for is_given, operations in (
        (arguments.producer, _OF_PRODUCERS),
        (arguments.consumer, _OF_CONSUMERS),
    ):
        for pattern in patterns if is_given else ():
            more = operations.get(pattern[0], ())
            found[pattern] = tuple(dict.fromkeys((*found.get(pattern, ()), *more)))
    if arguments.idempotent:
        if not arguments.producer:
            raise UsageError("--idempotent goes with --producer")
        found[(*CLUSTER, PatternType.LITERAL)] = (AclOperation.IDEMPOTENT_WRITE,)
    unused = [pattern[0] for pattern, operations in found.items() if not operations]
    unused += [pattern[0] for pattern in patterns if pattern not in found]
    if unused:
        flag = f"--{unused[0].name.lower().replace('_', '-')}"
        raise UsageError(f"{flag} has nothing to do with --producer and --consumer", "leave it out")
    return found


def _patterns(arguments: Arguments) -> list[Pattern]:
    kind = PatternType[arguments.pattern_type.upper()]
    found = [
        (of, name.strip(), kind)
        for of, names in (
            (AclResourceType.TOPIC, arguments.topics),
            (AclResourceType.GROUP, arguments.groups),
            (AclResourceType.TRANSACTIONAL_ID, arguments.transactional_ids),
            (AclResourceType.DELEGATION_TOKEN, arguments.tokens),
            (AclResourceType.USER, arguments.users),
        )
        for name in names
    ]
    if arguments.cluster:
        if kind is PatternType.PREFIXED:
            raise UsageError("--cluster has no prefix", "leave out --resource-pattern-type")
        found.append((*CLUSTER, PatternType.LITERAL))
    return list(dict.fromkeys(found))


def _operation(word: str) -> AclOperation:
    letters = word.lower()
    return next(each for each in AclOperation if each.name.replace("_", "").lower() == letters)


def _check_operations(kind: AclResourceType, operations: _Operations) -> None:
    supported = (*_SUPPORTED[kind], AclOperation.ALL)
    for operation in operations:
        if operation not in supported:
            names = ", ".join(map(word_of, supported))
            raise UsageError(
                f"{word_of(kind)} has no operation {word_of(operation)}", f"it has {names}"
            )


def word_of(value: AclResourceType | AclOperation | AclPermission | PatternType) -> str:
    """Kafka's word for a value: TransactionalId, DescribeConfigs, Allow."""
    return value.name.title().replace("_", "")
