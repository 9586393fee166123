"""Runs the tests of this folder with each client that is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.clients.aiokafka.driver import AioKafka
from tests.clients.confluent_kafka.driver import ConfluentKafka
from tests.clients.driver import Driver, TransactionalDriver
from tests.clients.java.agent import Agent, start_agent
from tests.clients.java.driver import Java
from tests.clients.kafka_python.driver import KafkaPython
from tests.clients.kcat.driver import Kcat
from tests.clients.ottla_client.driver import Ottla
from tests.faults.processes import free_port
from tests.lasting import LASTING

from ottla import Broker, testing

MakeDriver = Callable[[str], Driver]
MakeTransactional = Callable[[str], TransactionalDriver]

ADMINS = ["ottla", "confluent-kafka", "kafka-python", "aiokafka", "java"]
CLIENTS = [*ADMINS, "kcat"]


@pytest.fixture(scope="session")
def java_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A Java process with Apache Kafka's own client; skips where there cannot be one."""
    with start_agent(tmp_path_factory.getbasetemp().parent) as agent:
        yield agent


def _make_transactional(name: str, request: pytest.FixtureRequest) -> MakeTransactional:
    if name == "java":
        agent: Agent = request.getfixturevalue("java_agent")
        return lambda bootstrap_servers: Java(bootstrap_servers, agent)
    makers: dict[str, MakeTransactional] = {
        driver.name: driver for driver in (Ottla, ConfluentKafka, KafkaPython, AioKafka)
    }
    return makers[name]


def _make_driver(name: str, request: pytest.FixtureRequest) -> MakeDriver:
    if name != "kcat":
        return _make_transactional(name, request)
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    return Kcat


@pytest.fixture(params=CLIENTS)
def make_client(request: pytest.FixtureRequest) -> MakeDriver:
    """Makes the driver of each client in turn, for a broker of the test's own."""
    return _make_driver(request.param, request)


@pytest.fixture
def client(make_client: MakeDriver, ottla_broker: Broker) -> Driver:
    """Each client in turn, with the broker of the test session."""
    return make_client(ottla_broker.bootstrap_servers)


@pytest.fixture(params=ADMINS)
def make_admin_client(request: pytest.FixtureRequest) -> MakeDriver:
    """As make_client, for clients that have admin functions."""
    return _make_driver(request.param, request)


@pytest.fixture
def admin_client(make_admin_client: MakeDriver, ottla_broker: Broker) -> Driver:
    """As client, for clients that have admin functions."""
    return make_admin_client(ottla_broker.bootstrap_servers)


# Timeouts of transactions are seen soon, and those of members.
TRANSACTION_OPTIONS: dict[str, object] = {
    **LASTING,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "group.min.session.timeout.ms": 500,
}


@pytest.fixture(scope="session")
def one_node() -> Iterator[testing.Broker]:
    """A node for the transactions of the session."""
    with testing.Broker(TRANSACTION_OPTIONS) as broker:
        yield broker


@pytest.fixture(scope="session")
def three_nodes() -> Iterator[testing.Broker]:
    """Three nodes for the transactions of the session."""
    with testing.Broker(TRANSACTION_OPTIONS, nodes=3) as broker:
        yield broker


@pytest.fixture(params=ADMINS)
def make_transactional(request: pytest.FixtureRequest) -> MakeTransactional:
    """As make_client, for clients that have transactions."""
    return _make_transactional(request.param, request)


@pytest.fixture(params=["one_node", "three_nodes"])
def transactional_broker(request: pytest.FixtureRequest) -> testing.Broker:
    """One node, and three."""
    broker: testing.Broker = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
def transactional_client(
    make_transactional: MakeTransactional, transactional_broker: testing.Broker
) -> TransactionalDriver:
    """Each client that has transactions in turn, with one node and with three."""
    return make_transactional(transactional_broker.bootstrap_servers)


class RestartableBroker:
    """A broker that comes back at the same address with the same data."""

    def __init__(self, data_dir: Path, port: int) -> None:
        self.data_dir = data_dir
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.broker = self._started()

    def _started(self) -> Broker:
        return Broker(data_dir=self.data_dir, listen=self.bootstrap_servers).start()

    def restart(self) -> None:
        self.broker.stop()
        self.broker = self._started()


@pytest.fixture
def restartable_broker(tmp_path: Path) -> Iterator[RestartableBroker]:
    running = RestartableBroker(tmp_path / "data", free_port())
    yield running
    running.broker.stop()
