"""The same faults of the test kit with every client: each sees what it is meant to see."""

from __future__ import annotations

import threading
import time

import pytest
from tests.clients.driver import Driver, ProducerOptions
from tests.clients.messages import Message

from ottla.testing import Broker

TROUBLE_SECONDS = 0.3


def values_of(broker: Broker, topic: str) -> list[bytes]:
    return [record.value for record in broker.records(topic)]


@pytest.fixture
def servers(ottla_broker: Broker) -> str:
    """Faults need a broker of this process."""
    return ottla_broker.bootstrap_servers


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_lost_answer_makes_a_duplicate_unless_the_producer_is_idempotent(
    admin_client: Driver, ottla_broker: Broker, ottla_topic: str, is_idempotent: bool
) -> None:
    admin_client.create_topic(ottla_topic)
    options = ProducerOptions(idempotent=is_idempotent, acks="all")
    with admin_client.producer(options) as producer:
        producer.send(ottla_topic, [Message(b"first")])
        fault = ottla_broker.faults.add("Produce", topic=ottla_topic, drop="after", times=1)
        producer.send(ottla_topic, [Message(b"tea")])
    assert fault.hits == 1
    copies = 1 if is_idempotent else 2
    assert values_of(ottla_broker, ottla_topic) == [b"first", *[b"tea"] * copies]


def test_a_script_of_faults_costs_no_record(
    admin_client: Driver, ottla_broker: Broker, ottla_topic: str
) -> None:
    admin_client.create_topic(ottla_topic)
    outcomes = ["NOT_LEADER_OR_FOLLOWER", "lost request", "ok", "lost answer", "20ms"]
    ottla_broker.faults.script("Produce", outcomes, topic=ottla_topic)
    with admin_client.producer(ProducerOptions(idempotent=True, acks="all")) as producer:
        for number in range(4):
            producer.send(ottla_topic, [Message(b"%d" % number)])
    assert values_of(ottla_broker, ottla_topic) == [b"0", b"1", b"2", b"3"]
    met = [request.fault for request in ottla_broker.requests("Produce", topic=ottla_topic)]
    assert met[:5] == [
        "NOT_LEADER_OR_FOLLOWER",
        "lost request",
        "ok",
        "lost answer",
        "answered 0.02 s late",
    ]


def test_a_reader_goes_on_after_lost_fetches(
    admin_client: Driver, ottla_broker: Broker, ottla_topic: str
) -> None:
    values = [b"%d" % number for number in range(20)]
    admin_client.send(ottla_topic, [Message(value) for value in values])
    outcomes = ["lost answer", "NOT_LEADER_OR_FOLLOWER", "lost request"]
    fault = ottla_broker.faults.script("Fetch", outcomes, topic=ottla_topic)
    found = admin_client.read(ottla_topic, len(values))
    assert [record.value for record in found] == values
    assert fault.hits == 3


@pytest.mark.parametrize("trouble", ["full disk", "slow disk", "network partition", "pause"])
def test_a_producer_goes_on_when_the_trouble_is_over(
    admin_client: Driver, ottla_broker: Broker, ottla_topic: str, trouble: str
) -> None:
    admin_client.create_topic(ottla_topic)
    with admin_client.producer(ProducerOptions(idempotent=True, acks="all")) as producer:
        producer.send(ottla_topic, [Message(b"1")])
        match trouble:
            case "full disk":
                ottla_broker.faults.fill_disk()
            case "slow disk":
                ottla_broker.faults.slow_disk("10m")
            case "network partition":
                ottla_broker.faults.partition_network(node=ottla_broker.node_ids)
            case "pause":
                ottla_broker.pause()
        ending = threading.Timer(TROUBLE_SECONDS, ottla_broker.reset)
        ending.start()
        began = time.monotonic()
        producer.send(ottla_topic, [Message(b"2")])
        assert time.monotonic() - began > TROUBLE_SECONDS / 2, "it was in the way"
        ending.join()
    assert values_of(ottla_broker, ottla_topic) == [b"1", b"2"]
