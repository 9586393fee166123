"""Runs the tests of this folder with each client that is there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.clients.aiokafka.driver import AioKafka
from tests.clients.confluent_kafka.driver import ConfluentKafka
from tests.clients.driver import Driver, TransactionalDriver
from tests.clients.java.agent import Agent, start_agent
from tests.clients.java.driver import Java
from tests.clients.kafka_python.driver import KafkaPython
from tests.clients.kcat.driver import Kcat
from tests.clients.ottla_client.driver import Ottla
from tests.clients.transactions_seen import INTERNAL_PARTITIONS
from tests.faults.processes import free_port
from tests.lasting import LASTING
from tests.shared_brokers.broker_processes import BrokerProcesses, make_storage
from tests.storage.shared.postgres_server import new_schema_url, postgres_for_brokers

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


# Timeouts of transactions are seen soon, and those of members.
TRANSACTION_OPTIONS: dict[str, object] = {
    **LASTING,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "group.min.session.timeout.ms": 500,
}


class RealTime:
    """The clock of brokers that are processes."""

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)


class SharedBrokers(NamedTuple):
    """Three processes on one PostgreSQL."""

    bootstrap_servers: str
    clock: RealTime


@pytest.fixture(scope="session")
def three_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBrokers]:
    """Three brokers on one storage for the session, each a process."""
    # What waits for brokers waits for them here.
    options = {**TRANSACTION_OPTIONS, "transaction.state.log.num.partitions": INTERNAL_PARTITIONS}
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    with postgres_for_brokers() as server:
        storage = make_storage(new_schema_url(server))
        brokers = BrokerProcesses(tmp_path_factory.mktemp("shared"), storage, 3)
        try:
            brokers.start_all(*words)
            yield SharedBrokers(brokers.servers, RealTime())
        finally:
            brokers.end()


@pytest.fixture(params=["one-node", pytest.param("three-shared", marks=pytest.mark.campaign)])
def servers(request: pytest.FixtureRequest) -> str:
    """The broker of the test session, and in a campaign three processes on one storage."""
    name = {"one-node": "ottla_broker", "three-shared": "three_shared"}[request.param]
    found: str = request.getfixturevalue(name).bootstrap_servers
    return found


@pytest.fixture
def client(make_client: MakeDriver, servers: str) -> Driver:
    """Each client in turn, with the broker of the test session."""
    return make_client(servers)


@pytest.fixture(params=ADMINS)
def make_admin_client(request: pytest.FixtureRequest) -> MakeDriver:
    """As make_client, for clients that have admin functions."""
    return _make_driver(request.param, request)


@pytest.fixture
def admin_client(make_admin_client: MakeDriver, servers: str) -> Driver:
    """As client, for clients that have admin functions."""
    return make_admin_client(servers)


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


@pytest.fixture(
    params=[
        "one_node",
        "three_nodes",
        pytest.param("three_shared", marks=pytest.mark.campaign),
    ]
)
def transactional_broker(request: pytest.FixtureRequest) -> testing.Broker | SharedBrokers:
    """One node, and three; in a campaign also three processes on one storage."""
    broker: testing.Broker | SharedBrokers = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
def transactional_client(
    make_transactional: MakeTransactional, transactional_broker: testing.Broker | SharedBrokers
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
