"""Metadata: brokers at addresses that work, topics, and creation on first use."""

from __future__ import annotations

import socket
import uuid

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import create, every_version_of, fetch, fill, running, session_with

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.types import OPERATIONS_OMITTED, ZERO_UUID

NEWEST = 13


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 loopback")


def ask(
    connection: RawConnection,
    *names: str,
    version: int = NEWEST,
    allow_auto_topic_creation: bool = True,
) -> MetadataResponse:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=allow_auto_topic_creation,
    )
    answer: MetadataResponse = connection.call(request, MetadataResponse, version)
    return answer


def ask_all(connection: RawConnection, version: int) -> MetadataResponse:
    topics: list[MetadataRequestTopic] | None = [] if version == 0 else None
    answer: MetadataResponse = connection.call(
        MetadataRequest(topics=topics), MetadataResponse, version
    )
    return answer


def by_id(connection: RawConnection, topic_id: uuid.UUID, version: int) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
    (found,) = connection.call(request, MetadataResponse, version).topics
    assert isinstance(found, MetadataResponseTopic)
    return found


@pytest.mark.parametrize("version", every_version_of(MetadataRequest))
def test_every_version_describes_topics_and_brokers(
    broker: ottla.Broker, connection: RawConnection, topic: str, version: int
) -> None:
    topic_id = create(connection, topic, 3)
    answer = ask(connection, topic, version=version)
    endpoint = Endpoint.parse(broker.bootstrap_servers)
    (node,) = answer.brokers
    assert (node.node_id, node.host, node.port, node.rack) == (1, *endpoint, None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert (answer.cluster_id is not None) == (version >= 2)
    assert answer.cluster_authorized_operations == OPERATIONS_OMITTED
    (found,) = answer.topics
    assert (found.error_code, found.name, found.is_internal) == (ErrorCode.NONE, topic, False)
    assert found.topic_id == (topic_id if version >= 10 else ZERO_UUID)
    assert [each.partition_index for each in found.partitions] == [0, 1, 2]
    for each in found.partitions:
        assert (each.error_code, each.leader_id) == (ErrorCode.NONE, 1)
        assert each.replica_nodes == each.isr_nodes == [1]
        assert each.offline_replicas == []


@pytest.mark.parametrize("version", every_version_of(MetadataRequest))
def test_all_topics(connection: RawConnection, topic: str, version: int) -> None:
    create(connection, topic)
    assert topic in [found.name for found in ask_all(connection, version).topics]


@pytest.mark.parametrize("version", [1, 4, NEWEST])
def test_an_empty_list_means_none_since_version_1(connection: RawConnection, version: int) -> None:
    assert ask(connection, version=version).topics == []


def test_the_leader_epoch_is_the_one_that_fetches_are_checked_against(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    before = ask(connection, topic).topics[0].partitions[0].leader_epoch
    fill(connection, topic, b"v")
    after = ask(connection, topic).topics[0].partitions[0].leader_epoch
    assert before == after
    assert fetch(connection, topic, 0, current_leader_epoch=after).error_code == ErrorCode.NONE


# Creation on first use.


@pytest.mark.parametrize("version", [0, 3, 4, NEWEST])
def test_a_topic_is_created_on_first_use(
    connection: RawConnection, topic: str, version: int
) -> None:
    (found,) = ask(connection, topic, version=version).topics
    assert (found.error_code, len(found.partitions)) == (ErrorCode.NONE, 1)
    assert fill(connection, topic, b"v") == [0]


def test_creation_takes_the_brokers_defaults(start: Starter, topic: str) -> None:
    with session_with(start(num_partitions=5)) as connection:
        assert len(ask(connection, topic).topics[0].partitions) == 5


@pytest.mark.parametrize("version", [4, NEWEST])
def test_a_client_may_ask_not_to_create(
    connection: RawConnection, topic: str, version: int
) -> None:
    for _ in range(2):
        answer = ask(connection, topic, version=version, allow_auto_topic_creation=False)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.topics[0].partitions == []


def test_creation_can_be_switched_off(start: Starter, topic: str) -> None:
    with session_with(start(auto_create_topics_enable=False)) as connection:
        for version in (0, NEWEST):
            (found,) = ask(connection, topic, version=version).topics
            assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ask_all(connection, NEWEST).topics == []


@pytest.mark.parametrize("name", ["", "not a name", "x" * 250, ".."])
@pytest.mark.parametrize("may_create", [False, True])
def test_names_that_are_not_allowed(connection: RawConnection, name: str, may_create: bool) -> None:
    (found,) = ask(connection, name, allow_auto_topic_creation=may_create).topics
    assert (found.error_code, found.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, name)


def test_a_name_like_that_of_another_topic_is_unknown_unless_it_is_to_be_created(
    connection: RawConnection, topic: str
) -> None:
    create(connection, f"{topic}.a")
    (found,) = ask(connection, f"{topic}_a", allow_auto_topic_creation=False).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (found,) = ask(connection, f"{topic}_a").topics
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_internal_topics_are_not_created_by_clients_that_look(start: Starter) -> None:
    with session_with(start()) as connection:
        for name in ("__consumer_offsets", "__transaction_state"):
            (found,) = ask(connection, name).topics
            assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Topic ids.


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(connection: RawConnection, topic: str, version: int) -> None:
    topic_id = create(connection, topic)
    found = by_id(connection, topic_id, version)
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.NONE, topic, topic_id)


@pytest.mark.parametrize("version", [12, 13])
def test_an_unknown_id(connection: RawConnection, version: int) -> None:
    topic_id = uuid.uuid4()
    found = by_id(connection, topic_id, version)
    assert (found.error_code, found.name, found.topic_id) == (
        ErrorCode.UNKNOWN_TOPIC_ID,
        None,
        topic_id,
    )


@pytest.mark.parametrize("version", [10, 11])
def test_versions_with_ids_but_without_a_way_to_answer_them(
    connection: RawConnection, topic: str, version: int
) -> None:
    topic_id = create(connection, topic)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic, topic_id=topic_id)])
    (found,) = connection.call(request, MetadataResponse, version).topics
    assert (found.error_code, found.name) == (ErrorCode.NONE, topic)
    assert by_id(connection, topic_id, version).error_code == ErrorCode.INVALID_REQUEST


# Addresses.


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_clients_are_told_the_address_that_they_connected_to(start: Starter, host: str) -> None:
    broker = start(listen="0.0.0.0:0")
    port = Endpoint.parse(broker.bootstrap_servers).port
    with RawConnection(f"{host}:{port}") as connection:
        (node,) = ask(connection).brokers
        assert (node.host, node.port) == ("127.0.0.1", port)
        assert ask_all(connection, 0).brokers[0].host == "127.0.0.1"


@needs_ipv6
def test_an_ipv6_client_is_told_the_ipv6_address(start: Starter) -> None:
    broker = start(listen="[::1]:0")
    assert broker.bootstrap_servers.startswith("[::1]:")
    with RawConnection(broker.bootstrap_servers) as connection:
        (node,) = ask(connection).brokers
        assert str(Endpoint(node.host, node.port)) == broker.bootstrap_servers


@needs_ipv6
def test_every_interface_of_both_families(start: Starter) -> None:
    broker = start(listen="[::]:0")
    port = Endpoint.parse(broker.bootstrap_servers).port
    with RawConnection(f"[::1]:{port}") as connection:
        assert ask(connection).brokers[0].host == "::1"


@pytest.mark.parametrize("version", [0, NEWEST])
def test_an_advertised_address_is_what_clients_are_told(start: Starter, version: int) -> None:
    broker = start(advertise="broker.example:9999")
    assert broker.bootstrap_servers == "broker.example:9999"
    with RawConnection(str(running(broker).endpoint)) as connection:
        (node,) = ask(connection, version=max(version, 1)).brokers
        assert (node.host, node.port) == ("broker.example", 9999)


def test_the_cluster_id_stays_over_restarts(start: Starter) -> None:
    ids = set()
    for _ in range(2):
        broker = start()
        with session_with(broker) as connection:
            ids.add(ask(connection).cluster_id)
        broker.stop()
    assert len(ids) == 1
    assert None not in ids


def test_another_node_id_is_told(start: Starter, topic: str) -> None:
    with session_with(start(node_id=42)) as connection:
        answer = ask(connection, topic)
        assert ([node.node_id for node in answer.brokers], answer.controller_id) == ([42], 42)
        assert answer.topics[0].partitions[0].leader_id == 42
