"""Creating, describing and deleting ACLs, and who may do that."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.broker.conftest import Starter
from tests.broker.processes import ServeProcess
from tests.broker.requests import (
    create,
    eventually,
    every_version_of,
    fetch_request,
    fill,
    session_with,
    waiter_count,
)
from tests.broker.security.acl_requests import (
    OPEN_TO_ANONYMOUS,
    VERSION,
    WITH_AUTHORIZER,
    create_acls,
    creation_request,
    delete_acls,
    describe_acls,
    describe_request,
    topic_acl,
)
from tests.lasting import LASTING

import ottla
from ottla.access import (
    CLUSTER,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.broker.security.audit import LOGGER_NAME
from ottla.client.raw import RawConnection
from ottla.core.security import acl_changes
from ottla.errors import ErrorCode
from ottla.wire.messages.create_acls import CreateAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchResponse

DONE = (ErrorCode.NONE, "")


@pytest.fixture(scope="module")
def authorizing() -> Iterator[ottla.Broker]:
    with ottla.Broker({**OPEN_TO_ANONYMOUS, **LASTING}) as broker:
        yield broker


@pytest.fixture
def connection(authorizing: ottla.Broker) -> Iterator[RawConnection]:
    """A connection to a broker without ACLs."""
    with RawConnection(authorizing.bootstrap_servers) as connected:
        delete_acls(connected, AclFilter())
        yield connected


@pytest.mark.parametrize("version", every_version_of(CreateAclsRequest))
def test_acls_come_and_go(connection: RawConnection, version: int) -> None:
    one, other = topic_acl("orders"), topic_acl("ord")._replace(pattern_type=PatternType.PREFIXED)
    assert create_acls(connection, one, other, version=version) == [DONE, DONE]
    assert describe_acls(connection, version=version) == [other, one]
    (result,) = delete_acls(connection, AclFilter(name="orders"), version=version)
    assert [acl.resource_name for acl in result.matching_acls] == ["orders"]
    assert describe_acls(connection, version=version) == [other]


def test_creating_an_acl_again_is_no_error(connection: RawConnection) -> None:
    acl = topic_acl("orders")
    assert create_acls(connection, acl, acl) == [DONE, DONE]
    assert create_acls(connection, acl) == [DONE]
    assert describe_acls(connection) == [acl]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"name": ""}, "Invalid empty resource name"),
        (
            {"resource_type": ResourceType.CLUSTER},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"principal": "alice"}, "Could not parse principal from `alice` (no colon"),
        ({"principal": "User:" + "x" * 5000}, "longer than"),
    ],
)
def test_an_acl_without_meaning_is_refused_and_others_are_created(
    connection: RawConnection, wrong: dict[str, object], message: str
) -> None:
    good = topic_acl("orders")
    outcomes = create_acls(connection, topic_acl("x")._replace(**wrong), good)  # type: ignore[arg-type]
    assert outcomes[0][0] is ErrorCode.INVALID_REQUEST
    assert message in (outcomes[0][1] or "")
    assert outcomes[1] == DONE
    assert describe_acls(connection) == [good]


def test_every_filter_has_its_answer(connection: RawConnection) -> None:
    acls = [topic_acl("orders"), topic_acl("orders", "User:bob"), topic_acl("news")]
    create_acls(connection, *acls)
    results = delete_acls(
        connection,
        AclFilter(principal="User:alice"),
        AclFilter(operation=Operation(99)),
        AclFilter(name="orders", pattern_type=PatternType.MATCH),
        topic_acl("missing").to_filter(),
    )
    assert [ErrorCode(one.error_code) for one in results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    found = [
        sorted((acl.resource_name, acl.principal) for acl in one.matching_acls) for one in results
    ]
    # An ACL that two filters mean is in both answers.
    assert found == [
        [("news", "User:alice"), ("orders", "User:alice")],
        [],
        [("orders", "User:alice"), ("orders", "User:bob")],
        [],
    ]
    assert describe_acls(connection) == []


def test_many_acls_in_one_request(connection: RawConnection) -> None:
    acls = [topic_acl(f"topic-{number:04}") for number in range(1000)]
    assert set(create_acls(connection, *acls)) == {DONE}
    assert describe_acls(connection) == acls
    results = delete_acls(connection, *(acl.to_filter() for acl in acls))
    assert all(len(one.matching_acls) == 1 for one in results)


def test_there_is_a_limit_on_acls(
    connection: RawConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_changes, "MAX_ACLS", 2)
    assert create_acls(connection, topic_acl("a"), topic_acl("b")) == [DONE, DONE]
    ((error, message),) = create_acls(connection, topic_acl("c"))
    assert (error, message) == (
        ErrorCode.POLICY_VIOLATION,
        "There would be more than 2 acls; there are 2",
    )
    assert create_acls(connection, topic_acl("a")) == [DONE]


def test_one_request_deletes_only_so_many(
    connection: RawConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_acls(connection, topic_acl("a"), topic_acl("b"), topic_acl("c"))
    monkeypatch.setattr(acl_changes, "MAX_CHANGES_PER_REQUEST", 2)
    few, many = delete_acls(connection, AclFilter(name="a"), AclFilter())
    assert few.error_code == ErrorCode.NONE
    assert many.error_code == ErrorCode.POLICY_VIOLATION
    assert [acl.name for acl in describe_acls(connection)] == ["b", "c"]


def cluster_acl(operation: Operation, permission: Permission) -> AclBinding:
    return AclBinding(
        CLUSTER.type,
        CLUSTER.name,
        PatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        operation,
        permission,
    )


def test_acls_protect_themselves(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    options = {**WITH_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    caplog.set_level(logging.INFO, LOGGER_NAME)
    with session_with(start(options=options)) as connection:
        # The cluster has no ACLs yet: everybody may do everything with it.
        denied = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        acl = cluster_acl(Operation.DESCRIBE, Permission.ALLOW)
        assert create_acls(connection, acl, topic_acl("orders")) == [DONE, DONE]
        # Now it has, and they do not allow ALTER.
        assert create_acls(connection, topic_acl("news")) == [denied]
        (result,) = delete_acls(connection, AclFilter())
        assert (result.error_code, result.matching_acls) == (denied[0], [])
        assert describe_acls(connection) == [topic_acl("orders"), acl]
    events = [(record.event, record.getMessage()) for record in caplog.records]  # type: ignore[attr-defined]
    assert events[0] == (
        "acls_created",
        "User:ANONYMOUS created 2 ACL(s) from 127.0.0.1: "
        "ALLOW User:ANONYMOUS DESCRIBE on CLUSTER LITERAL 'kafka-cluster'; "
        "ALLOW User:alice READ on TOPIC LITERAL 'orders'",
    )
    assert [message for event, message in events if event == "access_denied"] == [
        f"denied ALTER on CLUSTER 'kafka-cluster' for User:ANONYMOUS from 127.0.0.1 "
        f"(listener PLAINTEXT), {api}"
        for api in ("CreateAcls", "DeleteAcls")
    ]


def test_nobody_may_see_acls_unless_it_is_allowed(
    start: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    with session_with(start(options=WITH_AUTHORIZER)) as connection:
        answer = connection.call(describe_request(AclFilter()), DescribeAclsResponse, 3)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.resources == []
    assert "access_denied_to_everybody" in [
        getattr(record, "event", None) for record in caplog.records
    ]


def test_acls_without_an_authorizer_are_kept_and_warned_of(
    start: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(options=OPEN_TO_ANONYMOUS)
    with session_with(broker) as connection:
        create_acls(connection, topic_acl("orders"), topic_acl("payments"))
    broker.stop()
    assert "acls_without_effect" not in [getattr(each, "event", None) for each in caplog.records]
    broker = start()
    with session_with(broker) as connection:
        answer = connection.call(describe_request(AclFilter()), DescribeAclsResponse, 3)
    assert answer.error_code == ErrorCode.SECURITY_DISABLED
    assert "there are 2 ACLs, and nothing is denied: authorizer.class.name is not set" in [
        record.getMessage() for record in caplog.records
    ]
    broker.stop()
    with session_with(start(options=OPEN_TO_ANONYMOUS)) as connection:
        assert len(describe_acls(connection)) == 2


def test_acls_survive_a_restart(start: Starter) -> None:
    acls = [topic_acl("größe"), topic_acl("orders", 'User:CN="a", O=b')]
    broker = start(options=OPEN_TO_ANONYMOUS)
    with session_with(broker) as connection:
        create_acls(connection, *acls, topic_acl("gone"))
        delete_acls(connection, AclFilter(name="gone"))
    broker.stop()
    with session_with(start(options=OPEN_TO_ANONYMOUS)) as connection:
        assert sorted(describe_acls(connection)) == sorted(acls)


def test_a_change_is_in_force_on_all_nodes_at_once(start: Starter) -> None:
    options = {**WITH_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    broker = start(options=options, nodes=3)
    connections = [RawConnection(address) for address in broker.bootstrap_servers.split(",")]
    first, *others = connections
    assert [describe_acls(each) for each in connections] == [[], [], []]
    create_acls(first, cluster_acl(Operation.DESCRIBE, Permission.DENY))
    for each in others:
        answer = each.call(describe_request(AclFilter()), DescribeAclsResponse, 3)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for each in connections:
        each.close()


def test_kill_9_leaves_what_was_acknowledged_and_no_half_of_a_request(
    serve_process: ServeProcess,
) -> None:
    options = [f"--set={name}={value}" for name, value in OPEN_TO_ANONYMOUS.items()]
    acls = [topic_acl(f"topic-{number}") for number in range(20)]
    unanswered = [topic_acl(f"later-{number}") for number in range(500)]
    serve_process.start(*options)
    with RawConnection(serve_process.address) as connection:
        assert create_acls(connection, *acls) == [DONE] * 20
        delete_acls(connection, AclFilter(name="topic-7"))
        connection.send(creation_request(*unanswered), VERSION)
        serve_process.kill()
    serve_process.start(*options)
    with RawConnection(serve_process.address) as connection:
        left = set(describe_acls(connection))
    assert left & set(acls) == set(acls) - {topic_acl("topic-7")}
    assert len(left - set(acls)) in (0, len(unanswered))


@pytest.mark.parametrize("partitions", [1, 300], ids=["one partition", "read in steps"])
def test_a_fetch_that_waits_gets_nothing_once_the_right_is_gone(
    start: Starter, partitions: int
) -> None:
    broker = start(options={**WITH_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"})
    servers = broker.bootstrap_servers
    with RawConnection(servers) as reader, RawConnection(servers) as connection:
        create(connection, "t", partitions)
        request = fetch_request("t", 0, max_wait_ms=60_000, min_bytes=1)
        request.topics[0].partitions = [
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000)
            for number in range(partitions)
        ]
        reader.send(request, 12)
        assert eventually(lambda: waiter_count(broker) == partitions)
        only_write = topic_acl("t", "User:ANONYMOUS")._replace(operation=Operation.WRITE)
        assert create_acls(connection, only_write) == [DONE]
        fill(connection, "t", b"not for everybody")
        (topic,) = reader.receive(FetchResponse, 12).responses
        errors = {partition.error_code for partition in topic.partitions}
        assert errors == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
