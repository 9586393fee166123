"""Which ACLs a filter means."""

from __future__ import annotations

import pytest

from ottla.access import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType

TOPIC_ACL = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
PREFIX_ACL = TOPIC_ACL._replace(name="ord", pattern_type=PatternType.PREFIXED)
WILDCARD_ACL = TOPIC_ACL._replace(name="*")
ACLS = {"literal": TOPIC_ACL, "prefix": PREFIX_ACL, "wildcard": WILDCARD_ACL}


@pytest.mark.parametrize(
    ("pattern_type", "name", "expected"),
    [
        (PatternType.ANY, None, ["literal", "prefix", "wildcard"]),
        (PatternType.ANY, "orders", ["literal"]),
        (PatternType.ANY, "ord", ["prefix"]),
        (PatternType.MATCH, None, ["literal", "prefix", "wildcard"]),
        (PatternType.MATCH, "orders", ["literal", "prefix", "wildcard"]),
        (PatternType.MATCH, "ordinary", ["prefix", "wildcard"]),
        (PatternType.MATCH, "*", ["wildcard"]),
        (PatternType.LITERAL, None, ["literal", "wildcard"]),
        (PatternType.LITERAL, "*", ["wildcard"]),
        (PatternType.LITERAL, "ord", []),
        (PatternType.PREFIXED, "ord", ["prefix"]),
        (PatternType.PREFIXED, "orders", []),
        (PatternType.UNKNOWN, "orders", []),
    ],
)
def test_filter_selects_patterns_as_kafka_does(
    pattern_type: PatternType, name: str | None, expected: list[str]
) -> None:
    wanted = AclFilter(ResourceType.TOPIC, name, pattern_type)
    assert [key for key, acl in ACLS.items() if wanted.matches(acl)] == expected


def test_every_given_field_of_a_filter_must_be_equal() -> None:
    assert AclFilter().matches(TOPIC_ACL)
    assert TOPIC_ACL.to_filter().matches(TOPIC_ACL)
    others = {
        "resource_type": ResourceType.GROUP,
        "name": "payments",
        "principal": "User:bob",
        # A filter for every host means the ACLs that say so, and one for a host those of that host.
        "host": "127.0.0.1",
        "operation": Operation.ALL,
        "permission": Permission.DENY,
    }
    for field, value in others.items():
        assert not AclFilter(**{field: value}).matches(TOPIC_ACL), field  # type: ignore[arg-type]


def test_codes_of_newer_versions_are_unknown() -> None:
    assert ResourceType(99) is ResourceType.UNKNOWN
    assert Operation(-1) is Operation.UNKNOWN
    assert AclFilter(pattern_type=PatternType(9)).unknown_part == "patternFilter"
    assert AclFilter(permission=Permission(9)).unknown_part == "entryFilter"
    assert AclFilter().unknown_part is None
