"""Other clients push their metrics, as they do by default where a broker asks for them (KIP-714)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from tests.broker.telemetry.clients import samples, scrape, subscribe
from tests.clients.java.agent import start_agent
from tests.waiting import in_time

import ottla
from ottla.broker.metrics import pages

WAIT_SECONDS = 30.0
GROUP = "readers-of-metrics"
Labels = tuple[tuple[str, str], ...]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[ottla.Broker]:
    """A broker that asks every client for all of its metrics, five times a second."""
    monkeypatch.setattr(pages, "PAGE_SECONDS", 0)
    with ottla.Broker(metrics="127.0.0.1:0") as broker:
        subscribe(broker.bootstrap_servers, interval_ms="200")
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([ottla.admin.NewTopic("t", num_partitions=1)])
        yield broker


def await_sample(
    broker: ottla.Broker, name: str, client_id: str, work: Callable[[], object]
) -> tuple[dict[str, str], float]:
    """The labels and the value of a metric of a client, as soon as it is above zero; the client works meanwhile."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        work()
        page = scrape(broker)
        for labels, value in samples(page, name).items():
            if dict(labels)["client_id"] == client_id and value > 0:
                return dict(labels), value
        in_time(deadline, f"{name} of {client_id} is missing: {sorted(page)}")


def software_of(broker: ottla.Broker) -> set[str]:
    return {
        dict(labels)["software_name"] for labels in samples(scrape(broker), "ottla_client_info")
    }


def test_metrics_of_confluent_kafka_arrive(asking: ottla.Broker) -> None:
    common = {"bootstrap.servers": asking.bootstrap_servers, "log_level": 0}
    producer = confluent_kafka.Producer({**common, "client.id": "ck-producer"})
    consumer = confluent_kafka.Consumer(
        {**common, "client.id": "ck-consumer", "group.id": GROUP, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["t"])

        def work() -> None:
            producer.produce("t", b"x" * 100)
            producer.flush(5)
            consumer.poll(0.05)

        latency = "kafka_client_producer_request_latency_max"
        labels, _ = await_sample(asking, latency, "ck-producer", work)
        assert labels == {"client_id": "ck-producer"}
        assigned = "kafka_client_consumer_coordinator_assigned_partitions"
        labels, value = await_sample(asking, assigned, "ck-consumer", work)
        assert value == 1
        assert labels["group_id"] == GROUP
        assert software_of(asking) == {"confluent-kafka-python"}
    finally:
        consumer.close()


def test_a_client_whose_user_switched_it_off_pushes_nothing(asking: ottla.Broker) -> None:
    common = {"bootstrap.servers": asking.bootstrap_servers, "log_level": 0}
    loud = confluent_kafka.Producer({**common, "client.id": "loud"})
    quiet = confluent_kafka.Producer({**common, "client.id": "quiet", "enable.metrics.push": False})

    def work() -> None:
        for producer in (loud, quiet):
            producer.produce("t", b"x")
            producer.flush(5)

    await_sample(asking, "kafka_client_producer_request_latency_max", "loud", work)
    clients = samples(scrape(asking), "ottla_client_info")
    assert {dict(labels)["client_id"] for labels in clients} == {"loud"}


def test_metrics_of_the_java_client_arrive(
    asking: ottla.Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with start_agent(Path(tmp_path_factory.getbasetemp().parent)) as agent:
        servers = f"bootstrap.servers={asking.bootstrap_servers}"
        producer, consumer = agent.connect(), agent.connect()
        producer.call("producer", servers, "client.id=java-producer", "linger.ms=0")
        consumer.call("consumer", servers, "client.id=java-consumer", f"group.id={GROUP}")
        consumer.call("subscribe", "t")

        def work() -> None:
            producer.call("send", "t", 0, 10_000, 1, b"k", b"v", None, 0)
            consumer.call("read", 1, 50)

        sent = "kafka_client_producer_record_send_total"
        labels, first = await_sample(asking, sent, "java-producer", work)
        assert labels == {"client_id": "java-producer"}
        # Differences are added up: a counter does not go back.
        deadline = time.monotonic() + WAIT_SECONDS
        while (now := await_sample(asking, sent, "java-producer", work)[1]) <= first + 2:
            assert now >= first
            in_time(deadline, "the counter does not grow")
        assigned = "kafka_client_consumer_coordinator_assigned_partitions"
        labels, value = await_sample(asking, assigned, "java-consumer", work)
        assert value == 1
        assert labels["group_id"] == GROUP
        assert "apache-kafka-java" in software_of(asking)
        producer.close()
        consumer.close()
