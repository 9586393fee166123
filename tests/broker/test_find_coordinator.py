"""FindCoordinator: who coordinates a group, and the topic that this takes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests as ask
from tests.broker.conftest import Starter
from tests.broker.nodes import Nodes
from tests.broker.requests import (
    TOPIC,
    batch_of,
    create,
    delete,
    every_version_of,
    produce,
    session_with,
)
from tests.broker.test_describe_configs import options_of as described_options

import ottla
from ottla.client.raw import RawConnection
from ottla.core.catalog import GROUPS_TOPIC
from ottla.errors import ErrorCode
from ottla.model import Endpoint, coordinator_partition
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

VERSIONS = every_version_of(FindCoordinatorRequest)
TYPED = [version for version in VERSIONS if version >= 1]
PARTITIONS = 50


def coordinators(answer: Any, version: int) -> list[Any]:
    """The answers, in whatever way the version gives them."""
    return [answer] if version < ask.FIND_BATCHED_SINCE else answer.coordinators


def metadata_of(connection: RawConnection, *names: str, version: int = 12) -> list[Any]:
    asked = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=True)
    topics: list[Any] = connection.call(request, MetadataResponse, version).topics
    return topics


@pytest.mark.parametrize("version", VERSIONS)
def test_this_broker_coordinates_every_group(
    broker: ottla.Broker, connection: RawConnection, version: int
) -> None:
    here = Endpoint.parse(broker.bootstrap_servers)
    for name in ("a", "", "ü" * 100):
        (found,) = coordinators(ask.find_coordinator(connection, name, version=version), version)
        assert (found.error_code, found.error_message) == (ErrorCode.NONE, None)
        assert (found.node_id, found.host, found.port) == (1, *here)


@pytest.mark.parametrize("version", range(ask.FIND_BATCHED_SINCE, VERSIONS[-1] + 1))
def test_many_keys_each_get_an_answer(connection: RawConnection, version: int) -> None:
    answer = ask.find_coordinator(connection, "a", "b", "a", version=version)
    assert [found.key for found in answer.coordinators] == ["a", "b", "a"]
    assert {found.error_code for found in answer.coordinators} == {ErrorCode.NONE}
    assert ask.find_coordinator(connection, version=version).coordinators == []


@pytest.mark.parametrize("version", TYPED)
@pytest.mark.parametrize("key_type", [-1, ask.SHARE_KEY, 7])
def test_kinds_of_keys_that_do_not_exist(
    connection: RawConnection, version: int, key_type: int
) -> None:
    answer = ask.find_coordinator(connection, "g", key_type=key_type, version=version)
    (found,) = coordinators(answer, version)
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert found.error_message


@pytest.mark.parametrize("version", TYPED)
def test_transactions_have_a_coordinator_too(connection: RawConnection, version: int) -> None:
    answer = ask.find_coordinator(connection, "t", key_type=ask.TRANSACTION_KEY, version=version)
    (found,) = coordinators(answer, version)
    assert found.error_code == ErrorCode.NONE
    assert found.node_id >= 0


@pytest.mark.parametrize("auto_create", [True, False])
def test_the_first_use_creates_the_topic_of_groups(start: Starter, auto_create: bool) -> None:
    """It is ours, whatever clients may create by looking."""
    broker = start(auto_create_topics_enable=auto_create)
    with session_with(broker) as connection:
        (missing,) = metadata_of(connection, GROUPS_TOPIC)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ask.find_coordinator(connection, "g")
        (made,) = metadata_of(connection, GROUPS_TOPIC)
        assert (made.error_code, made.is_internal) == (ErrorCode.NONE, True)
        assert len(made.partitions) == PARTITIONS
        assert {tuple(one.replica_nodes) for one in made.partitions} == {(1,)}
        options = described_options(connection, TOPIC, GROUPS_TOPIC)
        assert {
            name: options[name].value
            for name in ("cleanup.policy", "compression.type", "segment.bytes")
        } == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }
        ask.find_coordinator(connection, "another")
        assert metadata_of(connection, GROUPS_TOPIC)[0].topic_id == made.topic_id
        listed = connection.call(MetadataRequest(topics=None), MetadataResponse, 12).topics
        assert [(one.name, one.is_internal) for one in listed] == [(GROUPS_TOPIC, True)]


@pytest.mark.parametrize("version", every_version_of(MetadataRequest))
def test_every_metadata_version_that_can_says_that_it_is_internal(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    create(connection, topic)
    found = metadata_of(connection, GROUPS_TOPIC, topic, version=version)
    assert [one.is_internal for one in found] == [version >= 1, False]


def test_before_that_there_is_no_coordinator(start: Starter) -> None:
    with session_with(start()) as connection:
        error = ErrorCode.NOT_COORDINATOR
        stranger = ask.Joined("g", "stranger", 1)
        assert ask.join(connection, "g").error_code == error
        assert ask.sync(connection, stranger).error_code == error
        assert ask.heartbeat(connection, stranger) is error
        assert ask.leave_errors(connection, "g", ("stranger", None)) == [error]
        assert ask.delete_groups(connection, "g") == {"g": error}
        assert ask.describe(connection, "g").error_code == error
        assert ask.delete_offsets(connection, "g", {}).error_code == error
        (missing,) = metadata_of(connection, GROUPS_TOPIC)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_groups_begin_anew_when_their_topic_is_deleted(start: Starter, topic: str) -> None:
    with session_with(start()) as connection:
        create(connection, topic)
        ask.await_coordinator(connection)
        member = ask.enter(connection, "g")
        assert ask.commit(connection, "g", {(topic, 0): 1}, member=member) == [ErrorCode.NONE]
        assert delete(connection, GROUPS_TOPIC).error_code == ErrorCode.NONE
        assert ask.heartbeat(connection, member) is ErrorCode.NOT_COORDINATOR
        ask.await_coordinator(connection)
        assert ask.heartbeat(connection, member) is ErrorCode.UNKNOWN_MEMBER_ID
        assert ask.committed(connection, "g") == {}
        assert ask.enter(connection, "g").generation == 1


def test_clients_cannot_write_into_the_groups(connection: RawConnection, group: str) -> None:
    result = produce(connection, GROUPS_TOPIC, batch_of(b"v"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_on_several_nodes_each_coordinates_its_share() -> None:
    with ottla.Broker(nodes=3) as broker:
        nodes = Nodes(broker)
        names = [f"group-{number}" for number in range(30)]
        found = ask.find_coordinator(nodes.any, *names).coordinators
        assert {one.node_id for one in found} == set(broker.node_ids)
        for one in found:
            partition = coordinator_partition(one.key, PARTITIONS)
            assert one.node_id == broker.leader_of(GROUPS_TOPIC, partition)
            assert f"{one.host}:{one.port}" == broker.address_of(one.node_id)
            for node_id in broker.node_ids:
                error = ask.join(nodes.at(node_id), one.key).error_code
                assert error == (
                    ErrorCode.MEMBER_ID_REQUIRED
                    if node_id == one.node_id
                    else ErrorCode.NOT_COORDINATOR
                )
        for node_id in broker.node_ids:
            nodes.hang_up(node_id)
