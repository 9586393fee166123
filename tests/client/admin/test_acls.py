"""ACLs, at a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.admin.stage import Stage, essential

import ottla
from ottla.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from ottla.client.blocking.admin import Admin
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode, KafkaError, PartialFailureError

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
READ, WRITE = AclOperation.READ, AclOperation.WRITE


@pytest.fixture(scope="module")
def authorizing_broker() -> Iterator[ottla.Broker]:
    options = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with ottla.Broker(options) as broker:
        yield broker


@pytest.fixture
def stage(authorizing_broker: ottla.Broker, ottla_topic: str) -> Iterator[Stage]:
    servers = authorizing_broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin, RawConnection(servers) as connection:
        yield Stage(admin, connection, ottla_topic)


def allowed(principal: str, name: str, pattern_type: PatternType = LITERAL) -> AclBinding:
    return AclBinding(TOPIC, name, pattern_type, principal, "*", READ, AclPermission.ALLOW)


@essential
def test_acls_are_created_found_and_deleted(stage: Stage) -> None:
    name, who = stage.new_name(), f"User:{stage.new_name()}"
    literal, prefix = allowed(who, name), allowed(who, name[:-2], PREFIXED)
    other = AclBinding(GROUP, name, LITERAL, who, "192.0.2.1", READ, AclPermission.DENY)
    stage.admin.create_acls([literal, prefix, other])
    stage.admin.create_acls([literal])
    of_all = AclFilter(principal=who)
    assert stage.comes_true(
        lambda: stage.admin.describe_acls(of_all) == sorted([literal, prefix, other])
    )
    describe = stage.admin.describe_acls
    assert set(describe()) >= {literal, prefix, other}
    assert describe(AclFilter(TOPIC, name)) == [literal]
    assert set(describe(AclFilter(TOPIC, name, MATCH))) >= {literal, prefix}
    assert describe(AclFilter(permission=AclPermission.DENY, principal=who)) == [other]
    assert describe(AclFilter(TOPIC, name, operation=WRITE)) == []

    deleted = stage.admin.delete_acls([literal.to_filter(), AclFilter(GROUP, name)])
    assert deleted == {literal.to_filter(): [literal], AclFilter(GROUP, name): [other]}
    assert stage.comes_true(lambda: stage.admin.describe_acls(of_all) == [prefix])
    assert stage.admin.delete_acls([of_all, literal.to_filter()]) == {
        of_all: [prefix],
        literal.to_filter(): [],
    }


@essential
def test_each_acl_has_an_error_of_its_own(stage: Stage) -> None:
    who = f"User:{stage.new_name()}"
    right = allowed(who, stage.new_name())
    wrong = right._replace(principal="nobody")
    with pytest.raises(PartialFailureError) as caught:
        stage.admin.create_acls([right, wrong])
    assert list(caught.value.results) == [right]
    assert caught.value.errors[wrong].code in (
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
    )
    stage.admin.delete_acls([AclFilter(principal=who)])


def test_one_acl_is_not_taken_for_its_fields(stage: Stage) -> None:
    acl = allowed("User:alice", "orders")
    with pytest.raises(TypeError, match=r"write \[AclBinding\("):
        stage.admin.create_acls(acl)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"write \[AclFilter\("):
        stage.admin.delete_acls(acl.to_filter())  # type: ignore[arg-type]


def test_a_broker_without_an_authorizer_says_so(admin: Admin) -> None:
    for call in (
        lambda: admin.create_acls([allowed("User:alice", "orders")]),
        lambda: admin.describe_acls(),
        lambda: admin.delete_acls([AclFilter()]),
    ):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code is ErrorCode.SECURITY_DISABLED
