"""Three brokers, which are processes, on one database: whatever becomes of one, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.shared_brokers.broker_processes import (
    TAKEOVER_SECONDS,
    BrokerProcesses,
    free_ports,
    make_storage,
    members_of,
    wait_until,
)
from tests.shared_brokers.conftest import StartBrokers
from tests.shared_brokers.deliveries import SteadyProducer, read_all

import ottla

TOPIC = "orders"


def check_exact(brokers: BrokerProcesses, sent: SteadyProducer) -> None:
    """Every acknowledged record can be read once, and nothing was refused."""
    assert not sent.failed
    found = read_all(brokers.servers, TOPIC, "checker", len(sent.acknowledged))
    assert set(found) == set(sent.acknowledged)
    assert not [value for value, count in found.items() if count > 1]


def test_brokers_share_the_leaders_and_tell_the_same(start_brokers: StartBrokers) -> None:
    brokers = start_brokers(3)
    brokers.create_topic(TOPIC, 6)
    leaders = brokers.wait_until_spread(TOPIC, 3)
    assert set(leaders.values()) == {brokers.node_of(number) for number in range(3)}
    wait_until(lambda: brokers.leaders(TOPIC, 1) == brokers.leaders(TOPIC, 2))
    producer = Producer({"bootstrap.servers": brokers.servers})
    for number in range(60):
        producer.produce(TOPIC, str(number), partition=number % 6)
    assert producer.flush(30) == 0
    found = read_all(brokers.servers, TOPIC, "readers", 60)
    assert sorted(map(int, found)) == list(range(60))


@pytest.mark.long
def test_a_killed_broker_loses_nothing_and_others_lead_its_partitions(
    start_brokers: StartBrokers,
) -> None:
    brokers = start_brokers(3)
    brokers.create_topic(TOPIC, 6)
    brokers.wait_until_spread(TOPIC, 3)
    lost = brokers.node_of(1)
    with SteadyProducer(brokers.servers, TOPIC) as sent:
        time.sleep(1)
        brokers.kill(1)
        wait_until(
            lambda: (
                lost not in (found := brokers.leaders(TOPIC, 0)).values()
                and -1 not in found.values()
            )
        )
        brokers.start(1)
        assert brokers.node_of(1) == lost
        # It gets its share back without anybody asking.
        wait_until(lambda: lost in brokers.leaders(TOPIC, 0).values())
    check_exact(brokers, sent)


@pytest.mark.long
def test_a_broker_that_slept_beyond_its_lease_does_no_harm(start_brokers: StartBrokers) -> None:
    brokers = start_brokers(3)
    brokers.create_topic(TOPIC, 6)
    brokers.wait_until_spread(TOPIC, 3)
    sleeper = brokers.node_of(2)
    with SteadyProducer(brokers.servers, TOPIC) as sent:
        time.sleep(1)
        with brokers.paused(2):
            # Others have claimed all of its partitions: before that it may go on as if nothing had happened.
            wait_until(lambda: not {sleeper, -1}.intersection(brokers.leaders(TOPIC, 0).values()))
        time.sleep(2)
    check_exact(brokers, sent)
    assert "away for so long" in brokers.processes[2].log


def test_a_stopped_broker_hands_its_partitions_over_at_once(start_brokers: StartBrokers) -> None:
    brokers = start_brokers(2)
    brokers.create_topic(TOPIC, 4)
    brokers.wait_until_spread(TOPIC, 2)
    stayed = brokers.node_of(0)
    with SteadyProducer(brokers.servers, TOPIC) as sent:
        time.sleep(0.5)
        assert brokers.stop(1) == 0
        wait_until(lambda: set(brokers.leaders(TOPIC, 0).values()) == {stayed})
        time.sleep(0.5)
    check_exact(brokers, sent)


@pytest.mark.long
def test_a_copy_is_exact_although_brokers_are_killed(start_brokers: StartBrokers) -> None:
    brokers = start_brokers(3)
    brokers.create_topic(TOPIC, 6)
    brokers.create_topic("copies", 6)
    count = 3000
    producer = Producer({"bootstrap.servers": brokers.servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(TOPIC, str(number), key=str(number % 40))
    assert producer.flush(30) == 0
    copier = _Copier(brokers.servers)
    copied = 0
    kills = [2, 0]
    deadline = time.monotonic() + 120
    while copied < count and time.monotonic() < deadline:
        copied += copier.copy_some()
        if copied > count // 3 and kills:
            number = kills.pop()
            brokers.kill(number)
            brokers.start(number)
    copier.close()
    found = read_all(brokers.servers, "copies", "checker", count)
    assert sorted(map(int, found)) == list(range(count))
    assert found.total() == count


class _Copier:
    """Copies records in transactions; what fails is begun again."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._begin()

    def _begin(self) -> None:
        self._producer = Producer(
            {"bootstrap.servers": self._servers, "transactional.id": "copier"}
        )
        self._producer.init_transactions(TAKEOVER_SECONDS)
        self._consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "copiers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
            }
        )
        self._consumer.subscribe([TOPIC])

    def copy_some(self) -> int:
        """The number of records that one transaction has copied for certain."""
        found: list[Any] = [each for each in self._consumer.consume(100, 0.5) if not each.error()]
        if not found:
            return 0
        try:
            self._producer.begin_transaction()
            for each in found:
                self._producer.produce("copies", each.value(), key=each.key())
            ends = {(each.topic(), each.partition()): each.offset() + 1 for each in found}
            offsets = [TopicPartition(topic, number, end) for (topic, number), end in ends.items()]
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(offsets, group, TAKEOVER_SECONDS)
            self._producer.commit_transaction(TAKEOVER_SECONDS)
        except KafkaException:
            # Whether it was committed is unknown: the committed offsets tell.
            self.close()
            self._begin()
            return 0
        return len(found)

    def close(self) -> None:
        self._consumer.close()


def test_options_of_shared_brokers_have_an_effect(storage_url: str, tmp_path: Path) -> None:
    """Clients are told racks; links go to the port and the host that the options say."""
    brokers = BrokerProcesses(tmp_path, make_storage(storage_url), 2)
    (peer_port,) = free_ports(1)
    try:
        brokers.start(
            0, "--set", "broker.rack=r1", "--set", f"ottla.peer.listener=127.0.0.1:{peer_port}"
        )
        advertised = f"ottla.peer.advertised.listener=127.0.0.1:{peer_port}"
        brokers.start(1, "--set", "broker.rack=r2", "--set", advertised)
        with ottla.Admin(bootstrap_servers=brokers.servers) as admin:
            assert {node.rack for node in admin.describe_cluster().nodes} == {"r1", "r2"}
        with socket.create_connection(("127.0.0.1", peer_port)):
            pass
        # The second one says that it is at the first one's port, where another certificate is shown.
        session = next(each for each in asyncio.run(members_of(storage_url)) if each.rack == "r2")
        assert session.peer == f"127.0.0.1:{peer_port}"
    finally:
        brokers.end()


@pytest.mark.parametrize(
    "name", ["broker.rack", "ottla.peer.listener", "ottla.peer.advertised.listener"]
)
def test_options_of_shared_brokers_are_refused_without_a_storage(name: str) -> None:
    with pytest.raises(ottla.ConfigError, match="no effect without --storage"):
        ottla.Broker({name: "127.0.0.1:0"})


@pytest.mark.long
def test_the_registry_of_a_broker_reaches_the_others_without_a_login(
    storage_url: str, tmp_path: Path
) -> None:
    """Clients have to log in; the registry of a broker's own process does not, whichever broker leads its topic."""
    brokers = BrokerProcesses(tmp_path, make_storage(storage_url), 2)
    ports = free_ports(2)
    try:
        for number, port in enumerate(ports):
            arguments = ["--user", "alice:secret", "--registry", f"127.0.0.1:{port}"]
            brokers.start(number, *arguments, protocol="SASL_PLAINTEXT")
        subject = "/subjects/orders-value/versions"
        schema = json.dumps({"schema": '{"type": "string"}'}).encode()
        headers = {"Content-Type": "application/json"}
        # One of the two is not the leader of the topic of schemas.
        for port in ports:
            url = f"http://127.0.0.1:{port}{subject}"
            with urlopen(Request(url, schema, headers), timeout=60) as answer:
                assert json.load(answer) == {"id": 1}
    finally:
        brokers.end()
