"""ACLs in the catalog: what they look like there, and which changes a request makes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.security.acl_examples import acl

from ottla.access import AclBinding, Operation, PatternType, Permission, ResourceType
from ottla.core.catalog import Catalog
from ottla.core.outcomes import Refused
from ottla.core.security import acl_changes
from ottla.core.security.acl_changes import check_new_acl, new_acls
from ottla.errors import ErrorCode

ACLS = st.builds(
    AclBinding,
    st.sampled_from([each for each in ResourceType if each > ResourceType.ANY]),
    st.text(min_size=1),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.text().map("User:{}".format),
    st.text(),
    st.sampled_from([each for each in Operation if each > Operation.ANY]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@given(st.lists(ACLS, unique=True))
def test_acls_survive_the_catalog(acls: list[AclBinding]) -> None:
    catalog = Catalog({})
    stored = json.loads(json.dumps(catalog.create_acls(acls)))
    assert len(stored) == len(acls)
    catalog.apply(stored)
    assert [each for _, each in catalog.acls.items()] == acls
    catalog.apply(catalog.delete_acls(key for key, _ in catalog.acls.items()))
    assert len(catalog.acls) == 0
    assert catalog.acls.items() == []


def test_the_same_acl_has_the_same_entry() -> None:
    # Two brokers that create it at once make one ACL.
    catalog = Catalog({})
    changes = catalog.create_acls([acl("orders")])
    assert changes == Catalog({}).create_acls([acl("orders")])
    catalog.apply(changes)
    catalog.apply(changes)
    assert len(catalog.acls) == 1
    # No text of one field can look like the text of two.
    assert len(catalog.create_acls([acl("a', 'LITERAL"), acl("a")])) == 2


def test_only_new_acls_are_created_each_once() -> None:
    catalog = Catalog({})
    catalog.apply(catalog.create_acls([acl("old")]))
    assert new_acls(catalog.acls, [acl("b"), acl("old"), acl("a"), acl("b")]) == [
        acl("b"),
        acl("a"),
    ]


def test_a_request_creates_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "MAX_CHANGES_PER_REQUEST", 2)
    refused = new_acls(Catalog({}).acls, [acl("a"), acl("b"), acl("c")])
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.POLICY_VIOLATION


@given(ACLS)
def test_what_has_a_meaning_can_be_created(each: AclBinding) -> None:
    refused = check_new_acl(each)
    is_other_cluster = each.resource_type is ResourceType.CLUSTER and each.name != "kafka-cluster"
    assert (refused is not None) == is_other_cluster
