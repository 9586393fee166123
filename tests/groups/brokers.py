"""What the tests of groups run against: Ottla, and Apache Kafka to see that the tests are right."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest
from tests import maven
from tests.apache_kafka.programs import Kafka, running_kafka
from tests.faults.processes import BrokerProcess
from tests.groups.members import Client
from tests.lasting import LASTING
from tests.shared_brokers.broker_processes import BrokerProcesses, make_storage
from tests.storage.shared.postgres_server import new_schema_url, postgres_for_brokers

from ottla import Broker as Workers
from ottla.testing import Broker

# "ottla", "kafka", or the address of a broker with the options below.
WHICH = os.environ.get("OTTLA_TEST_BROKER") or "ottla"

HEARTBEATS = 3
# More than the interval, on a busy machine too.
HEARTBEAT_SECONDS = 0.4
# Of the new protocol the broker sets what members of the old one set themselves: PATIENT_MS and so on.
NEW_PROTOCOL: dict[str, object] = {
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": 10_000,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.assignment.interval.ms": 0,
}
OPTIONS: dict[str, object] = {
    **LASTING,
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    **NEW_PROTOCOL,
}


@dataclass
class Running:
    """A broker under test; `ottla` is ours, if it is."""

    bootstrap_servers: str
    ottla: Broker | None = None

    def let_pass(self, milliseconds: float) -> None:
        """Lets time pass at the broker: at once at ours, and at others by waiting."""
        if self.ottla is not None:
            self.ottla.clock.advance(milliseconds / 1000)
        else:
            time.sleep(milliseconds / 1000)

    def let_session_pass(self, client: Client, milliseconds: float) -> None:
        """As `let_pass`; with the new protocol all sessions are the same, and who is well heartbeats in between."""
        steps = HEARTBEATS if client.has_new_protocol and self.ottla is not None else 1
        for _ in range(steps):
            if steps > 1:
                time.sleep(HEARTBEAT_SECONDS)
            self.let_pass(milliseconds / steps)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Time passes only by `let_pass`, if the broker is ours."""
        if self.ottla is None:
            yield
            return
        self.ottla.clock.freeze()
        try:
            yield
        finally:
            self.ottla.clock.resume()


@contextmanager
def one_node(
    folder: Path, more_options: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Running]:
    options = {**OPTIONS, **more_options}
    if WHICH == "ottla":
        with Broker(options) as broker:
            yield Running(broker.bootstrap_servers, broker)
    elif WHICH == "kafka":
        with running_kafka(maven.kafka_server(folder.parent), folder, options) as address:
            yield Running(address)
    elif more_options:
        pytest.skip("a broker that runs already has other options")
    else:
        yield Running(WHICH)


@contextmanager
def killable_node(
    folder: Path, options: Mapping[str, object] = OPTIONS
) -> Iterator[BrokerProcess | Kafka]:
    """A broker in a process of its own, that the test kills and starts again."""
    if WHICH == "ottla":
        words = {name.replace(".", "_"): value for name, value in options.items()}
        with BrokerProcess(folder, **words) as broker:
            yield broker
        return
    kafka = Kafka(maven.kafka_server(folder.parent), folder, options)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.kill()


class KillableWorkers:
    """Three workers, all of which are killed at once."""

    def __init__(self, broker: Workers) -> None:
        self._broker = broker
        self._killed: list[int] = []

    @property
    def address(self) -> str:
        return self._broker.bootstrap_servers

    def kill(self) -> None:
        self._killed = self._broker.node_ids
        for node_id in self._killed:
            self._broker.kill_node(node_id)

    def start(self) -> None:
        """Their supervisor starts them by itself; returns when all serve."""
        for node_id in self._killed:
            self._broker.start_node(node_id)


@contextmanager
def three_workers(folder: Path) -> Iterator[Workers]:
    """Three processes over one folder."""
    if WHICH != "ottla":
        pytest.skip("workers are Ottla's")
    with Workers(OPTIONS, workers=3, data_dir=folder / "workers") as broker:
        yield broker


@contextmanager
def three_shared_brokers(folder: Path) -> Iterator[Running]:
    """Three processes on one PostgreSQL."""
    if WHICH != "ottla":
        pytest.skip("brokers on shared storage are Ottla's")
    options = [word for name, value in OPTIONS.items() for word in ("--set", f"{name}={value}")]
    with postgres_for_brokers() as server:
        brokers = BrokerProcesses(folder, make_storage(new_schema_url(server)), 3)
        try:
            brokers.start_all(*options)
            yield Running(brokers.servers)
        finally:
            brokers.end()


@contextmanager
def three_nodes() -> Iterator[Running]:
    if WHICH != "ottla":
        pytest.skip("three nodes in one process are Ottla's")
    with Broker(OPTIONS, nodes=3) as broker:
        yield Running(broker.bootstrap_servers, broker)
