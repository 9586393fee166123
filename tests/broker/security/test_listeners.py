"""Several listeners: clients get the addresses of the one that they came in by."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.option_probes import alter_broker
from tests.broker.requests import BROKER, running, session_with
from tests.broker.test_describe_configs import OF_BROKER
from tests.broker.test_describe_configs import options_of as described_options
from tests.client.security.certificates import STORE_PASSWORD, Certificates

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ConfigError, ErrorCode
from ottla.model import Endpoint
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

TWO = {
    "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Broker]:
    """Three nodes with two listeners each."""
    with ottla.Broker(TWO, nodes=3) as broker:
        yield broker


def told(address: str) -> set[str]:
    """Every address that a client gets at this one."""
    with RawConnection(address) as connection:
        metadata = connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
        cluster = connection.call(
            DescribeClusterRequest(include_cluster_authorized_operations=False),
            DescribeClusterResponse,
            1,
        )
        found = {
            str(Endpoint(each.host, each.port)) for each in (*metadata.brokers, *cluster.brokers)
        }
        for key in "abcdef":
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[key])
            answer = connection.call(request, FindCoordinatorResponse, 4)
            (coordinator,) = answer.coordinators
            found.add(str(Endpoint(coordinator.host, coordinator.port)))
        return found


@pytest.mark.parametrize("listener", ["INTERNAL", "EXTERNAL"])
def test_clients_get_the_addresses_of_the_listener_that_they_came_in_by(
    cluster: ottla.Broker, listener: str
) -> None:
    servers = cluster.servers_of_listener(listener).split(",")
    assert len(servers) == 3
    for address in servers:
        assert told(address) == set(servers)


def test_the_first_listener_is_that_of_bootstrap_servers(cluster: ottla.Broker) -> None:
    assert cluster.bootstrap_servers == cluster.servers_of_listener("internal")
    with pytest.raises(ConfigError, match="there are INTERNAL, EXTERNAL"):
        cluster.servers_of_listener("SSL")


def test_a_node_has_its_ports_again_on_every_listener() -> None:
    with ottla.Broker(TWO, nodes=2) as broker:
        before = broker.bootstrap_servers, broker.servers_of_listener("EXTERNAL")
        broker.kill_node(2)
        broker.start_node(2)
        assert (broker.bootstrap_servers, broker.servers_of_listener("EXTERNAL")) == before


def test_each_listener_has_its_own_advertised_address() -> None:
    options = {**TWO, "advertised.listeners": "EXTERNAL://broker.example:19092"}
    with ottla.Broker(options) as broker:
        (address,) = told(broker.bootstrap_servers)
        assert address == broker.bootstrap_servers
        assert broker.servers_of_listener("EXTERNAL") == "broker.example:19092"


def test_a_listener_has_a_limit_of_connections_of_its_own() -> None:
    with ottla.Broker({**TWO, "listener.name.external.max.connections": 1}) as broker:
        external = broker.servers_of_listener("EXTERNAL")
        with RawConnection(external) as first:
            first.call(MetadataRequest(topics=[]), MetadataResponse, 12)
            with RawConnection(external) as second, pytest.raises((ConnectionError, EOFError)):
                second.call(MetadataRequest(topics=[]), MetadataResponse, 12)
            with RawConnection(broker.bootstrap_servers) as other:
                other.call(MetadataRequest(topics=[]), MetadataResponse, 12)


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("INTERNAL://127.0.0.1:9092,EXTERNAL://127.0.0.1:9093", "further apart"),
        ("INTERNAL://127.0.0.1:65535,EXTERNAL://127.0.0.1:0", "ends above port 65535"),
    ],
)
def test_the_ports_of_several_nodes_must_not_meet(listeners: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ottla.Broker({**TWO, "listeners": listeners}, nodes=2)


def test_listen_is_short_for_listeners() -> None:
    with pytest.raises(ConfigError, match="both given"):
        ottla.Broker(TWO, listen="127.0.0.1:0")
    with pytest.raises(ConfigError, match="does not say for which listener"):
        ottla.Broker(TWO, advertise="broker.example:9092")


def test_the_limit_of_a_listener_can_be_altered() -> None:
    with ottla.Broker(TWO) as broker:
        external = broker.servers_of_listener("EXTERNAL")
        with session_with(broker) as connection:
            name = "listener.name.external.max.connections"
            assert alter_broker(connection, {name: "1"}) is ErrorCode.NONE
            shown = described_options(connection, BROKER, "1")[name]
            assert (shown.value, shown.config_source) == ("1", OF_BROKER)
            for wrong in ("listener.name.other.max.connections", "listener.name.external.x"):
                assert alter_broker(connection, {wrong: "1"}) is ErrorCode.INVALID_CONFIG
        with RawConnection(external) as first:
            first.call(MetadataRequest(topics=[]), MetadataResponse, 12)
            with RawConnection(external) as second, pytest.raises((ConnectionError, EOFError)):
                second.call(MetadataRequest(topics=[]), MetadataResponse, 12)


def test_passwords_of_listeners_are_not_shown(certificates: Certificates) -> None:
    options = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.name.ssl.ssl.keystore.location": str(certificates.server_store),
        "listener.name.ssl.ssl.keystore.password": STORE_PASSWORD,
    }
    with ottla.Broker(options) as broker:
        assert STORE_PASSWORD not in repr(running(broker).node.options.config)
        with RawConnection(broker.servers_of_listener("PLAINTEXT")) as connection:
            shown = described_options(connection, BROKER, "1")
            location = shown["listener.name.ssl.ssl.keystore.location"]
            assert location.value == str(certificates.server_store)
            password = shown["listener.name.ssl.ssl.keystore.password"]
            assert password.is_sensitive
            assert password.value is None
            assert STORE_PASSWORD not in str(list(shown.values()))
