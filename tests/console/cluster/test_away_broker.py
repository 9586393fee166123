"""Two brokers of Apache Kafka, one of which is away: partitions and coordinators without a leader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import Kafka, free_ports, new_cluster_id
from tests.console.api_client import ApiClient, looking
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving

import ottla
from ottla.admin import NewTopic
from ottla.model import coordinator_partition

__all__ = ["kafka_jars"]

pytestmark = pytest.mark.campaign

SECONDS = 30
COORDINATORS = 2
"""Partitions of the internal topics: the first has its leader on the broker that stays."""


@pytest.fixture(scope="module")
def brokers(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Kafka]]:
    """The first is the controller, too."""
    ports, cluster_id = free_ports(4), new_cluster_id()
    common = {
        "controller.quorum.voters": f"1@127.0.0.1:{ports[1]}",
        "broker.session.timeout.ms": 2_000,
        "broker.heartbeat.interval.ms": 300,
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
    }
    address = f"PLAINTEXT://127.0.0.1:{ports[2]}"
    second = {
        **common,
        "process.roles": "broker",
        "node.id": 2,
        "listeners": address,
        "advertised.listeners": address,
    }
    found: list[Kafka] = []
    try:
        for options, pair in ((common, ports[:2]), (second, ports[2:])):
            found.append(
                Kafka(
                    kafka_jars,
                    tmp_path_factory.mktemp("kafka"),
                    options,
                    ports=(pair[0], pair[1]),
                    cluster_id=cluster_id,
                )
            )
            found[-1].start()
        yield found
    finally:
        for each in reversed(found):
            each.kill()


def name_at(broker: int, prefix: str) -> str:
    """A group or transactional id whose coordinator is a broker."""
    return next(
        name
        for name in (f"{prefix}-{number}" for number in range(100))
        if coordinator_partition(name, COORDINATORS) == broker - 1
    )


def fill(servers: str) -> None:
    """A topic with a partition on each broker, and two groups that have read some of it."""
    each_one = {0: [1], 1: [2]}
    with ottla.Admin(bootstrap_servers=servers) as admin:
        compacted = {"cleanup.policy": "compact"}
        admin.create_topics(
            [
                NewTopic("orders", replicas_assignments=each_one),
                NewTopic("__consumer_offsets", replicas_assignments=each_one, configs=compacted),
                NewTopic("__transaction_state", replicas_assignments=each_one, configs=compacted),
            ]
        )
    producer = Producer({"bootstrap.servers": servers})
    for number in range(20):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    assert producer.flush(SECONDS) == 0
    for broker in (1, 2):
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": name_at(broker, "readers"),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["orders"])
        assert len(consumer.consume(20, SECONDS)) == 20
        consumer.commit(asynchronous=False)
        consumer.close()


@pytest.fixture(scope="module")
def api(brokers: list[Kafka]) -> Iterator[ApiClient]:
    """A console that began when all was well; since then the second broker is away."""
    servers = ",".join(each.address for each in brokers)
    fill(servers)
    opened = Producer(
        {"bootstrap.servers": servers, "transactional.id": name_at(2, "payments"), "log_level": 0}
    )
    opened.init_transactions(SECONDS)
    opened.begin_transaction()
    for partition in (0, 1):
        opened.produce("orders", b"open", partition=partition)
    assert opened.flush(SECONDS) == 0
    with quick_polls(), serving(servers) as console, looking(console.url) as client:
        client.soon("/api/groups", lambda page: page["total"] == 2)
        client.soon("/api/transactions/summary", lambda found: found["held_partition_count"] == 2)
        brokers[1].kill()
        yield client


def titles(answer: dict[str, Any]) -> str:
    return "\n".join(each["title"] for each in answer["attention"])


def test_a_transaction_whose_coordinator_is_away_does_not_hang(api: ApiClient) -> None:
    api.soon("/api/overview", lambda found: "Broker 2 is not in the cluster" in titles(found))
    page = api.soon(
        "/api/transactions/hanging",
        lambda found: found if any("not known" in each for each in found["problems"]) else None,
    )
    assert page["rows"] == []
    assert "hangs" not in titles(api.get("/api/overview"))
    status, text = api.refused(
        "POST", "/api/transactions/hanging/abort", topic="orders", partition=0, start_offset=10
    )
    assert (status, "nothing was done" in text) == (400, True)
