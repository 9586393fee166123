"""`ottla acls`: which ACLs the options stand for, as kafka-acls has it."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.cli.conftest import Ottla, Result, soon
from tests.client.admin.test_acls import AUTHORIZER
from tests.lasting import LASTING

from ottla import Broker
from ottla.cli.commands.root import parse
from ottla.cli.errors import UsageError
from ottla.cli.security.acl_selection import resource_filters, wanted_acls, wanted_filters
from ottla.cli.security.acls import text_of
from ottla.client.admin_model.acls import AclFilter, AclResourceType, PatternType


def created_by(line: str) -> list[str]:
    return [text_of(acl) for acl in wanted_acls(parse(["acls", "create", *shlex.split(line)])[1])]


def filters_of(line: str) -> list[AclFilter]:
    return wanted_filters(parse(["acls", "delete", *shlex.split(line)])[1])


def test_each_resource_principal_host_and_operation_has_an_acl() -> None:
    assert created_by(
        "--topic a --group b --allow-principal User:x --deny-principal User:y "
        "--deny-host 10.0.0.1 --operation read --operation DESCRIBE_CONFIGS"
    ) == [
        "User:x may Read Topic a",
        "User:x may DescribeConfigs Topic a",
        "User:y may not Read Topic a from 10.0.0.1",
        "User:y may not DescribeConfigs Topic a from 10.0.0.1",
        "User:x may Read Group b",
        "User:x may DescribeConfigs Group b",
        "User:y may not Read Group b from 10.0.0.1",
        "User:y may not DescribeConfigs Group b from 10.0.0.1",
    ]
    assert created_by("--cluster --allow-principal User:x") == ["User:x may All Cluster"]
    assert created_by(
        "--topic a- --resource-pattern-type prefixed --allow-principal User:x --operation Write"
    ) == ["User:x may Write Topic a-*"]


def test_roles_stand_for_what_producers_and_consumers_need() -> None:
    producer = [f"User:x may {each} Topic t" for each in ("Write", "Describe", "Create")]
    assert created_by("--producer --topic t --allow-principal User:x") == producer
    assert created_by(
        "--producer --idempotent --topic t --transactional-id i --allow-principal User:x"
    ) == [
        *producer,
        "User:x may Write TransactionalId i",
        "User:x may Describe TransactionalId i",
        "User:x may IdempotentWrite Cluster",
    ]
    assert created_by("--consumer --topic t --group g --allow-principal User:x") == [
        "User:x may Read Topic t",
        "User:x may Describe Topic t",
        "User:x may Read Group g",
    ]
    assert created_by("--producer --consumer --topic t --group g --allow-principal User:x") == [
        *producer,
        "User:x may Read Topic t",
        "User:x may Read Group g",
    ]


def test_deletion_is_for_all_acls_of_resources_or_for_the_ones_that_are_described() -> None:
    assert filters_of("--topic t") == [AclFilter(AclResourceType.TOPIC, "t", PatternType.LITERAL)]
    found = filters_of("--topic t --allow-principal User:x --operation Read")
    assert [(each.principal, each.host, each.operation.name) for each in found] == [
        ("User:x", "*", "READ")
    ]
    line = "--topic t --resource-pattern-type match"
    assert resource_filters(parse(["acls", "list", *line.split()])[1]) == [
        AclFilter(AclResourceType.TOPIC, "t", PatternType.MATCH)
    ]
    assert resource_filters(parse(["acls", "list"])[1]) == [AclFilter()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--topic t", "nobody is named"),
        ("--allow-principal User:x", "no resource is given"),
        ("--topic t --allow-principal alice", "write User:alice"),
        ("--topic t --allow-principal User:x --deny-host 10.0.0.1", "needs --deny-principal"),
        (
            "--topic t --allow-principal User:x --allow-host a.example",
            "'a.example' is no IP address",
        ),
        ("--topic t --deny-principal User:x --deny-host 10.0.0.0/8", "no client would match it"),
        ("--group g --allow-principal User:x --operation Write", "Group has no operation Write"),
        ("--producer --group g --allow-principal User:x", "--producer needs a topic"),
        ("--consumer --topic t --allow-principal User:x", "--consumer needs a group"),
        ("--consumer --topic t --group g --cluster --allow-principal User:x", "--cluster"),
        ("--topic t --idempotent --allow-principal User:x", "goes with --producer"),
        ("--producer --topic t --operation Read --allow-principal User:x", "--operation"),
        (
            "--cluster --resource-pattern-type prefixed --allow-principal User:x",
            "has no prefix",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(line: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        created_by(line)


@pytest.fixture(params=["ottla", "kafka"])
def authorizing(request: pytest.FixtureRequest, inside: Ottla) -> Iterator[Ottla]:
    """Runs `ottla …` against a cluster with an authorizer, where ANONYMOUS is a super user."""
    if request.param == "kafka":
        address = request.getfixturevalue("kafka_address")
        yield partial(inside, OTTLA_BOOTSTRAP_SERVER=address)
        return
    options = {**LASTING, "authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with Broker(options) as broker:
        yield partial(inside, OTTLA_BOOTSTRAP_SERVER=broker.bootstrap_servers)


def test_acls_are_created_listed_and_deleted(
    authorizing: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    name = ottla_topic_name()
    grant = ("--allow-principal", f"User:{name}", "--consumer", "--topic", name, "--group", name)
    assert authorizing("acls", "create", *grant, "--dry-run").lines == [
        f"would be created: User:{name} may {what} {name}"
        for what in ("Read Topic", "Describe Topic", "Read Group")
    ]
    created = authorizing("acls", "create", *grant)
    assert created.code == 0, created.err
    assert len(created.lines) == 3
    mine = ("--principal", f"User:{name}")

    def are_listed(*expected: tuple[str, str]) -> None:
        rows = authorizing("acls", "list", *mine, "-o", "json").data
        assert [(row["resource_type"], row["operation"]) for row in rows] == [*expected]

    read, describe, group = ("Topic", "Read"), ("Topic", "Describe"), ("Group", "Read")
    soon(lambda: are_listed(read, describe, group))
    (row,) = authorizing("acls", "list", *mine, "--group", name).table
    assert row == {
        "RESOURCE": "Group",
        "NAME": name,
        "PATTERN": "Literal",
        "PRINCIPAL": f"User:{name}",
        "HOST": "*",
        "OPERATION": "Read",
        "PERMISSION": "Allow",
    }
    unsure = authorizing("acls", "delete", "--topic", name)
    assert (unsure.code, len(unsure.table)) == (0, 2)
    assert unsure.err == "dry run: nothing was deleted; --yes deletes these ACLs\n"
    are_listed(read, describe, group)
    some = ("--topic", name, "--allow-principal", f"User:{name}", "--operation", "Read")
    assert authorizing("acls", "delete", *some, "--yes").err == "1 ACL deleted\n"
    soon(lambda: are_listed(describe, group))
    for resource in ("--topic", "--group"):
        assert authorizing("acls", "delete", resource, name, "--force").code == 0
    soon(are_listed)
    assert authorizing("acls", "delete", "--topic", name).err == "there are no such ACLs\n"


class Typed(io.BytesIO):
    """What is typed at a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_asked_before_acls_are_deleted(
    authorizing: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    name = ottla_topic_name()
    authorizing("acls", "create", "--topic", name, "--allow-principal", f"User:{name}")
    soon(lambda: is_there(authorizing("acls", "list", "--topic", name), name))
    asked = authorizing("acls", "delete", "--topic", name, stdin=Typed(b"n\n"))
    assert asked.err.endswith("Delete 1 ACL? (y/n) nothing was deleted\n")
    assert authorizing("acls", "delete", "--topic", name, stdin=Typed(b"y\n")).err.endswith(
        "1 ACL deleted\n"
    )


def is_there(done: Result, name: str) -> None:
    assert name in done.out


def test_the_verbs_of_kafkas_tools_are_answered_with_ours(inside: Ottla) -> None:
    for words, ours in (
        (["acls", "--add", "--topic", "t"], "ottla acls create"),
        (["acls", "remove", "--topic", "t"], "ottla acls delete"),
        (["users", "add", "alice"], "ottla users create"),
        (["quotas", "describe"], "ottla quotas list"),
    ):
        done = inside(*words)
        assert done.code == 2
        assert f"write `{ours}`" in done.err.splitlines()[-1]
    assert "write NAME=VALUE" in inside("quotas", "set", "--add-config", "a=b").err


def test_a_cluster_without_an_authorizer_says_so_in_one_line(inside: Ottla) -> None:
    done = inside("acls", "list")
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "No Authorizer is configured" in line
