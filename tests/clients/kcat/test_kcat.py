"""What is particular to kcat."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.clients.broker_side import batches_of
from tests.clients.kcat.driver import Kcat, kcat, parse
from tests.clients.messages import Message, numbered
from tests.clients.transactions_seen import wait_until_stable

from ottla import Broker
from ottla.model import TopicPartition

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")

FORMAT = ("-q", "-f", "%p %o %T %K %S\\n%k%s%h\\n")


@pytest.fixture
def client(ottla_broker: Broker) -> Kcat:
    return Kcat(ottla_broker.bootstrap_servers)


def test_metadata_lists_topics_and_partitions(client: Kcat, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, partitions=3)
    listed = json.loads(kcat("-L", "-J", "-b", client.bootstrap_servers))
    (topic,) = [topic for topic in listed["topics"] if topic["topic"] == ottla_topic]
    assert [partition["partition"] for partition in topic["partitions"]] == [0, 1, 2]
    assert [broker["name"] for broker in listed["brokers"]] == [client.bootstrap_servers]


def test_all_partitions_are_read_to_their_ends(client: Kcat, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, partitions=4)
    for partition in range(4):
        client.send(ottla_topic, numbered(10, start=10 * partition), partition)
    printed = kcat("-C", "-b", client.bootstrap_servers, "-t", ottla_topic, "-e", *FORMAT)
    received = parse(printed)
    for partition in range(4):
        found = [one.content for one in received if one.partition == partition]
        assert found == numbered(10, start=10 * partition)


@pytest.mark.parametrize(
    ("start", "expected"), [("beginning", 0), ("-3", 7), ("4", 4), ("s@1", 0), ("end", None)]
)
def test_every_way_to_name_a_start_works(
    client: Kcat, ottla_topic: str, start: str, expected: int | None
) -> None:
    client.send(ottla_topic, numbered(10))
    where = ("-b", client.bootstrap_servers, "-t", ottla_topic, "-p", "0", "-o", start)
    received = parse(kcat("-C", *where, "-e", *FORMAT))
    assert [one.offset for one in received] == list(range(10 if expected is None else expected, 10))


def test_a_time_is_a_start_and_an_end(client: Kcat, ottla_topic: str) -> None:
    client.send(ottla_topic, [Message(b"first")])
    client.send(ottla_topic, [Message(b"second")])
    first, second = client.read(ottla_topic, 2)
    assert first.timestamp_ms < second.timestamp_ms
    at = f"s@{second.timestamp_ms}"
    where = ("-b", client.bootstrap_servers, "-t", ottla_topic, "-p", "0", "-o", at, "-e", *FORMAT)
    assert [one.value for one in parse(kcat("-C", *where))] == [b"second"]
    with client.consumer() as consumer:
        assert consumer.offset_at(TopicPartition(ottla_topic, 0), second.timestamp_ms) == 1


def test_an_idempotent_producer_is_served(client: Kcat, ottla_topic: str) -> None:
    stdin = b"\n".join(b"line %d" % number for number in range(100))
    kcat(
        *("-P", "-b", client.bootstrap_servers, "-t", ottla_topic, "-p", "0"),
        *("-X", "enable.idempotence=true"),
        stdin=stdin,
    )
    received = client.read(ottla_topic, 100)
    assert b"\n".join(one.value or b"" for one in received) == stdin


def test_a_group_reads_everything_once(client: Kcat, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, partitions=2)
    for partition in range(2):
        client.send(ottla_topic, numbered(5, start=5 * partition), partition)
    group = ("-b", client.bootstrap_servers, "-G", f"group-{ottla_topic}", ottla_topic, "-e")
    options = (*FORMAT, "-X", "auto.offset.reset=earliest")
    received = parse(kcat(*group, *options))
    assert sorted((one.partition, one.offset) for one in received) == [
        (partition, offset) for partition in range(2) for offset in range(5)
    ]
    client.send(ottla_topic, numbered(1, start=10), 1)
    assert [one.content for one in parse(kcat(*group, *options))] == numbered(1, start=10)


def test_what_it_sends_in_a_transaction_is_read_when_it_is_committed(
    client: Kcat, ottla_topic: str
) -> None:
    servers = client.bootstrap_servers
    options = ("-X", f"transactional.id={ottla_topic}")
    kcat("-P", "-b", servers, "-t", ottla_topic, *options, stdin=b"one\ntwo\n")
    wait_until_stable(servers, TopicPartition(ottla_topic, 0))
    (batch, marker) = batches_of(servers, ottla_topic)
    assert batch.header.is_transactional
    assert marker.header.is_control
    printed = kcat(
        *("-C", "-b", servers, "-t", ottla_topic, "-e", "-q"),
        *("-X", "isolation.level=read_committed"),
    )
    assert printed == b"one\ntwo\n"
