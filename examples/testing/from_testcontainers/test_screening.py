"""The tests of the service with a broker of ottla's: nothing sleeps, and every test has topics of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from screening import Screening

from ottla.testing import Broker

pytestmark = pytest.mark.ottla_broker(
    seed={topic: {"partitions": 2} for topic in ("payments", "payments.dead", "alerts")}
)


@pytest.fixture
def kafka(ottla_test_broker: Broker) -> Broker:
    return ottla_test_broker


@pytest.fixture
def servers(kafka: Broker) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def start(servers: str) -> Iterator[Callable[[], Screening]]:
    running = []

    def start() -> Screening:
        service = Screening(servers)
        thread = threading.Thread(target=service.run)
        thread.start()
        running.append((service, thread))
        return service

    yield start
    for service, thread in running:
        service.stop()
        thread.join(10)


def pay(servers: str, *payments: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for payment in payments:
        producer.produce("payments", payment, key="customer 7")
    producer.flush(10)


def test_a_large_payment_raises_an_alert(
    kafka: Broker, servers: str, start: Callable[[], Screening]
) -> None:
    start()
    pay(servers, '{"id": "a", "cents": 5}', '{"id": "b", "cents": 100001}')
    kafka.wait_lag_zero("screening")
    assert [json.loads(record.value) for record in kafka.records("alerts")] == [{"payment": "b"}]


def test_what_is_no_payment_is_kept(
    kafka: Broker, servers: str, start: Callable[[], Screening]
) -> None:
    start()
    pay(servers, "soon", '{"id": "b", "cents": 100001}')
    kafka.wait_lag_zero("screening")
    assert [record.value for record in kafka.records("payments.dead")] == [b"soon"]
    assert len(kafka.records("alerts")) == 1


def test_a_new_instance_goes_on_where_the_last_one_stopped(
    kafka: Broker, servers: str, start: Callable[[], Screening]
) -> None:
    first = start()
    pay(servers, '{"id": "a", "cents": 5}')
    kafka.wait_lag_zero("screening")
    first.stop()
    kafka.wait_members("screening", 0)
    second = start()
    pay(servers, '{"id": "b", "cents": 5}')
    kafka.wait_for(lambda: second.seen)
    assert (first.seen, second.seen) == (["a"], ["b"])


def test_the_partitions_of_a_killed_instance_are_taken_over(
    kafka: Broker, servers: str, start: Callable[[], Screening]
) -> None:
    command = [sys.executable, "-m", "screening", servers]
    with subprocess.Popen(command, cwd=Path(__file__).parent) as killed:
        try:
            kafka.wait_members("screening", 1)
        finally:
            killed.kill()
    start()
    pay(servers, '{"id": "a", "cents": 100001}')
    kafka.wait_for(lambda: kafka.groups()["screening"].state == "PreparingRebalance")
    kafka.clock.advance("1m")  # its session ends
    assert len(kafka.wait_records("alerts", 1)) == 1


# What a container cannot do, or only slowly.


def test_an_alert_whose_answer_is_lost_comes_once(
    kafka: Broker, servers: str, start: Callable[[], Screening]
) -> None:
    lost = kafka.faults.add("Produce", topic="alerts", drop="after", times=1)
    start()
    pay(servers, '{"id": "b", "cents": 100001}')
    kafka.wait_lag_zero("screening")
    assert lost.hits == 1
    assert len(kafka.records("alerts")) == 1


def test_payments_are_screened_after_a_crash_of_the_broker(
    kafka: Broker, servers: str, start: Callable[[], Screening]
) -> None:
    service = start()
    pay(servers, '{"id": "a", "cents": 5}')
    kafka.wait_lag_zero("screening")
    kafka.kill()
    kafka.restart()
    pay(servers, '{"id": "b", "cents": 100001}')
    kafka.wait_records("alerts", 1)
    kafka.wait_lag_zero("screening")
    assert service.seen == ["a", "b"]
