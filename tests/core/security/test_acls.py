"""What ACLs allow, sentence by sentence."""

from __future__ import annotations

import pytest
from tests.core.security.acl_examples import ALICE, BOB, acl, prefix

from ottla.access import (
    AclBinding,
    Operation,
    Permission,
    Principal,
    Resource,
    ResourceType,
    group,
    topic,
)
from ottla.core.security.access_decisions import (
    MAX_REMEMBERED,
    MAX_REMEMBERED_NAME_CHARS,
    AccessDecisions,
)
from ottla.core.security.acls import AclOutcome, AclTable

HOST = "10.0.0.7"
DENY = Permission.DENY
ALLOWED, DENIED, NOT_ALLOWED, NO_ACLS = AclOutcome


def table(*acls: AclBinding) -> AclTable:
    made = AclTable()
    for number, each in enumerate(acls):
        made.put(str(number), each)
    return made


def outcome(
    acls: AclTable,
    name: str,
    operation: Operation = Operation.READ,
    principal: str = ALICE,
    host: str = HOST,
) -> AclOutcome:
    return acls.decide(principal, host, operation, topic(name))


def test_a_literal_acl_is_about_one_resource_of_one_type() -> None:
    acls = table(acl("orders"))
    assert outcome(acls, "orders") is ALLOWED
    assert outcome(acls, "orders2") is NO_ACLS
    assert outcome(acls, "order") is NO_ACLS
    assert acls.decide(ALICE, HOST, Operation.READ, group("orders")) is NO_ACLS


def test_a_prefix_is_about_itself_and_what_begins_with_it() -> None:
    acls = table(prefix("orders-"))
    assert outcome(acls, "orders-eu") is ALLOWED
    assert outcome(acls, "orders-") is ALLOWED
    assert outcome(acls, "orders") is NO_ACLS


def test_the_wildcard_is_about_every_resource() -> None:
    acls = table(acl("*"))
    assert outcome(acls, "orders") is ALLOWED
    # Kafka's own index loses the wildcard for groups and transactional ids of which the name begins with it.
    assert outcome(acls, "*of-a-group") is ALLOWED


def test_a_prefix_that_is_an_asterisk_is_no_wildcard() -> None:
    acls = table(prefix("*"))
    assert outcome(acls, "orders") is NO_ACLS
    assert outcome(acls, "*x") is ALLOWED


@pytest.mark.parametrize("denied", [acl("orders", permission=DENY), acl("*", permission=DENY)])
@pytest.mark.parametrize("allowed", [acl("orders"), acl("*"), prefix("o"), prefix("orders")])
def test_a_denial_wins_over_every_permission(denied: AclBinding, allowed: AclBinding) -> None:
    assert outcome(table(allowed, denied), "orders") is DENIED
    assert outcome(table(denied, allowed), "orders") is DENIED


@pytest.mark.parametrize(
    ("given", "implied"),
    [
        (Operation.READ, Operation.DESCRIBE),
        (Operation.WRITE, Operation.DESCRIBE),
        (Operation.DELETE, Operation.DESCRIBE),
        (Operation.ALTER, Operation.DESCRIBE),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS),
        (Operation.ALL, Operation.IDEMPOTENT_WRITE),
    ],
)
def test_permissions_imply_others_but_denials_do_not(given: Operation, implied: Operation) -> None:
    assert outcome(table(acl("orders", given)), "orders", implied) is ALLOWED
    denied = outcome(table(acl("orders", given, DENY)), "orders", implied)
    assert denied is (DENIED if given is Operation.ALL else NOT_ALLOWED)


@pytest.mark.parametrize("given", [Operation.CREATE, Operation.ALTER_CONFIGS])
def test_other_operations_do_not_imply_describe(given: Operation) -> None:
    assert outcome(table(acl("orders", given)), "orders", Operation.DESCRIBE) is NOT_ALLOWED


def test_acls_are_about_principals_or_everybody() -> None:
    acls = table(acl("orders"), acl("news", principal="User:*"), acl("odd", principal="User:al*"))
    assert outcome(acls, "orders", principal=BOB) is NOT_ALLOWED
    assert outcome(acls, "news", principal=BOB) is ALLOWED
    assert outcome(acls, "odd") is NOT_ALLOWED
    assert outcome(acls, "orders", principal="Group:alice") is NOT_ALLOWED


def test_acls_are_about_addresses_or_every_one() -> None:
    acls = table(acl("orders", host=HOST))
    assert outcome(acls, "orders") is ALLOWED
    assert outcome(acls, "orders", host="10.0.0.8") is NOT_ALLOWED


@pytest.mark.parametrize("written", ["fd00::7", "fd00:0:0:0:0:0:0:7"])
def test_an_ipv6_address_may_be_written_shortly_or_as_java_does(written: str) -> None:
    acls = table(acl("orders", host=written))
    assert outcome(acls, "orders", host="fd00::7") is ALLOWED
    assert outcome(acls, "orders", host="fd00::8") is NOT_ALLOWED


def test_an_ipv4_client_of_an_ipv6_socket_has_its_ipv4_address() -> None:
    assert outcome(table(acl("orders", host=HOST)), "orders", host=f"::ffff:{HOST}") is ALLOWED


def test_a_removed_acl_is_in_force_no_more_and_others_are() -> None:
    acls = table(acl("orders"), acl("orders", Operation.WRITE), prefix("ord"), prefix("or"))
    acls.remove("0")
    assert outcome(acls, "orders") is ALLOWED
    acls.remove("2")
    assert outcome(acls, "orders") is ALLOWED
    acls.remove("3")
    assert outcome(acls, "orders") is NOT_ALLOWED
    assert outcome(acls, "orders", Operation.WRITE) is ALLOWED
    acls.remove("1")
    acls.remove("unknown")
    assert outcome(acls, "orders") is NO_ACLS
    assert len(acls) == 0


def test_an_id_has_one_acl() -> None:
    acls = table(acl("orders"))
    acls.put("0", acl("payments"))
    assert outcome(acls, "orders") is NO_ACLS
    assert acls.items() == [("0", acl("payments"))]
    assert acl("payments") in acls
    assert acls.exactly(acl("payments").to_filter()) == ("0", acl("payments"))
    assert acls.exactly(acl("orders").to_filter()) is None


def decisions(acls: AclTable, *, allows_without_acls: bool = False) -> AccessDecisions:
    return AccessDecisions(acls, ["User:admin"], allows_without_acls=allows_without_acls)


def allows(asked: AccessDecisions, user: str, name: str) -> bool:
    return asked.allows(Principal.user(user), HOST, Operation.READ, topic(name))


def test_super_users_may_do_everything() -> None:
    acls = table(acl("*", permission=DENY, principal="User:*"))
    assert allows(decisions(acls), "admin", "orders")
    assert not allows(decisions(acls), "alice", "orders")


def test_resources_without_acls_may_be_open_to_everyone() -> None:
    acls = table(acl("orders"), prefix("pay"))
    assert not allows(decisions(acls), "bob", "news")
    opened = decisions(acls, allows_without_acls=True)
    assert allows(opened, "bob", "news")
    # These have ACLs, which say nothing about bob.
    assert not allows(opened, "bob", "orders")
    assert not allows(opened, "bob", "payments")


def test_a_change_is_in_force_at_once() -> None:
    acls = AclTable()
    asked = decisions(acls)
    assert not allows(asked, "alice", "orders")
    acls.put("1", acl("orders"))
    assert allows(asked, "alice", "orders")
    acls.remove("1")
    assert not allows(asked, "alice", "orders")


def test_only_so_many_decisions_are_remembered() -> None:
    asked = decisions(table(acl("*")))
    for number in range(MAX_REMEMBERED + 10):
        assert allows(asked, "alice", str(number))
    assert allows(asked, "alice", "x" * (MAX_REMEMBERED_NAME_CHARS + 1))
    assert len(asked._remembered) == 10


def some(acls: AclTable, operation: Operation = Operation.WRITE) -> bool:
    return decisions(acls).allows_some(Principal.user("alice"), HOST, operation, ResourceType.TOPIC)


WRITE = Operation.WRITE


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("orders", WRITE)], True),
        ([acl("orders", Operation.ALL)], True),
        ([acl("orders", Operation.READ)], False),
        ([acl("orders", WRITE, principal=BOB)], False),
        ([acl("orders", WRITE, host="10.0.0.8")], False),
        ([acl("orders", WRITE), acl("orders", WRITE, DENY)], False),
        ([acl("orders", WRITE), prefix("or", WRITE, DENY)], False),
        ([acl("orders", WRITE), prefix("orders2", WRITE, DENY)], True),
        ([acl("*", WRITE), prefix("or", WRITE, DENY)], True),
        ([acl("*", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("orders", WRITE), acl("*", Operation.ALL, DENY)], False),
        ([prefix("or", WRITE), prefix("o", WRITE, DENY)], False),
        ([prefix("or", WRITE), prefix("or", WRITE, DENY)], False),
        ([prefix("or", WRITE), prefix("ord", WRITE, DENY)], True),
        # An exact denial leaves the other names of the prefix.
        ([prefix("or", WRITE), acl("or", WRITE, DENY)], True),
    ],
)
def test_whether_some_resource_is_allowed(acls: list[AclBinding], expected: bool) -> None:
    assert some(table(*acls)) is expected


def test_some_resource_is_allowed_to_super_users_and_where_everyone_is() -> None:
    acls = table(acl("*", WRITE, DENY, principal="User:*"))
    asked = decisions(acls)
    for user, expected in (("admin", True), ("alice", False)):
        found = asked.allows_some(Principal.user(user), HOST, WRITE, ResourceType.TOPIC)
        assert found is expected
    opened = decisions(AclTable(), allows_without_acls=True)
    assert opened.allows_some(Principal.user("bob"), HOST, WRITE, ResourceType.TOPIC)


def test_what_operations_imply_does_not_count_for_some_resource() -> None:
    # As in Kafka, unless the ACL applies to the name with which it asks first.
    assert not some(table(acl("orders", Operation.READ)), Operation.DESCRIBE)
    assert some(table(prefix("hard", Operation.READ)), Operation.DESCRIBE)
    assert Resource(ResourceType.TOPIC, "hardcode") == topic("hardcode")
