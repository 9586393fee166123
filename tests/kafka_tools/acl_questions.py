"""Requests about ACLs to a broker with an authorizer, whose answers are compared with those of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.access import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.client.raw import RawConnection
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NEWER = 99


class AclQuestion(NamedTuple):
    """A request in one version, in words."""

    title: str
    request: Any
    response: type[Any]
    version: int


ORDERS = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
PREFIX = ORDERS._replace(name="ord", pattern_type=PatternType.PREFIXED, permission=Permission.DENY)
WILDCARD = ORDERS._replace(name="*", principal="User:*", host="10.0.0.7", operation=Operation.ALL)
GROUP = ORDERS._replace(resource_type=ResourceType.GROUP, principal="User:CN=bob,O=a b")
CLUSTER = ORDERS._replace(resource_type=ResourceType.CLUSTER, name="kafka-cluster")

# ACLs that cannot be created, each beside one that can.
_WRONG: tuple[dict[str, Any], ...] = (
    {"resource_type": 0},
    {"resource_type": 1},
    {"resource_type": NEWER},
    {"resource_type": ResourceType.CLUSTER},
    {"resource_type": ResourceType.DELEGATION_TOKEN},
    {"resource_type": ResourceType.USER},
    {"name": ""},
    {"pattern_type": 0},
    {"pattern_type": 1},
    {"pattern_type": 2},
    {"pattern_type": NEWER},
    {"operation": 0},
    {"operation": 1},
    {"operation": NEWER},
    {"operation": Operation.IDEMPOTENT_WRITE},
    {"permission": 0},
    {"permission": 1},
    {"permission": NEWER},
    {"principal": "alice"},
    {"principal": ""},
    {"principal": ":"},
    {"principal": "User:"},
    {"principal": "Group:a"},
    {"host": ""},
    {"host": "not an address"},
    {"name": "a\nb"},
)

_FILTERS: tuple[AclFilter, ...] = (
    AclFilter(),
    AclFilter(ResourceType.TOPIC),
    AclFilter(name="orders"),
    AclFilter(name="orders", pattern_type=PatternType.MATCH),
    AclFilter(ResourceType.TOPIC, "ordinary", PatternType.MATCH),
    AclFilter(pattern_type=PatternType.MATCH),
    AclFilter(name="*", pattern_type=PatternType.LITERAL),
    AclFilter(name="*", pattern_type=PatternType.MATCH),
    AclFilter(name="ord", pattern_type=PatternType.PREFIXED),
    AclFilter(pattern_type=PatternType.PREFIXED),
    AclFilter(principal="User:alice"),
    AclFilter(principal="User:*"),
    AclFilter(principal="nonsense"),
    AclFilter(host="*"),
    AclFilter(host="10.0.0.7"),
    AclFilter(operation=Operation.ALL),
    AclFilter(permission=Permission.DENY),
    AclFilter(name=""),
)
_UNKNOWN: tuple[dict[str, Any], ...] = tuple(
    {field: code}
    for field in ("resource_type", "pattern_type", "operation", "permission")
    for code in (0, NEWER)
)


def acl_questions() -> Iterator[AclQuestion]:
    """In this order: some change what later ones show."""
    for version in (1, 2, 3):
        yield _create(ORDERS, PREFIX, WILDCARD, GROUP, CLUSTER, ORDERS, version=version)
    yield _create()
    for wrong in _WRONG:
        yield _create(ORDERS._replace(name="wrong")._replace(**wrong), ORDERS)
    for wanted in _FILTERS:
        yield _describe(wanted)
    yield _describe(AclFilter(), version=1)
    for unknown in _UNKNOWN:
        yield _describe(AclFilter()._replace(**unknown))
        yield _delete(AclFilter()._replace(**unknown), AclFilter(name="missing"))
    yield _delete()
    yield _delete(ORDERS.to_filter(), AclFilter(name="orders"), AclFilter(name="orders"))
    yield _delete(ORDERS.to_filter(), version=1)
    yield _describe(AclFilter())
    yield _delete(AclFilter())
    yield _describe(AclFilter())


def _create(*acls: AclBinding, version: int = 3) -> AclQuestion:
    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    title = f"create v{version}: " + "; ".join(map(_text, acls))
    return AclQuestion(title, CreateAclsRequest(creations=creations), CreateAclsResponse, version)


def _describe(wanted: AclFilter, version: int = 3) -> AclQuestion:
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    title = f"describe v{version}: {_text(wanted)}"
    return AclQuestion(title, request, DescribeAclsResponse, version)


def _delete(*filters: AclFilter, version: int = 3) -> AclQuestion:
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
            for wanted in filters
        ]
    )
    title = f"delete v{version}: " + "; ".join(map(_text, filters))
    return AclQuestion(title, request, DeleteAclsResponse, version)


def _text(acl: AclBinding | AclFilter) -> str:
    return " ".join("-" if part is None else repr(part).strip("'") for part in map(_plain, acl))


def _plain(part: object) -> object:
    return int(part) if isinstance(part, int) else part


def answer_to(address: str, question: AclQuestion) -> str:
    """The answer, with ACLs in an order of their own: Kafka's is that of a hash table."""
    with RawConnection(address) as connection:
        try:
            answer = connection.call(question.request, question.response, question.version)
        except ConnectionError:
            return "    (the connection is closed)"
    return "\n".join(f"    {line}" for line in _lines(answer)) or "    (nothing)"


def _lines(answer: Any) -> Iterator[str]:
    if isinstance(answer, CreateAclsResponse):
        for result in answer.results:
            yield f"{result.error_code} {result.error_message}"
    elif isinstance(answer, DeleteAclsResponse):
        for one in answer.filter_results:
            yield f"{one.error_code} {one.error_message}"
            yield from sorted(f"  {acl}" for acl in one.matching_acls)
    else:
        yield f"{answer.error_code} {answer.error_message}"
        for resource in sorted(answer.resources, key=str):
            name = f"{resource.resource_type} {resource.pattern_type} {resource.resource_name!r}"
            yield f"  {name}"
            yield from sorted(f"    {acl}" for acl in resource.acls)
