"""group.protocol=consumer with our broker: what a consumer has to do with any Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.apache_kafka.reconciling import RECONCILING
from tests.client.apache_kafka.stage import Case, Stage

import ottla

OPTIONS = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with ottla.Broker(OPTIONS) as broker:
        address = broker.bootstrap_servers
        with ottla.Admin(bootstrap_servers=address) as admin:
            yield Stage(address, admin)


@pytest.mark.parametrize("case", RECONCILING, ids=lambda case: case.name.removeprefix("test_"))
def test_with_our_broker(case: Case, stage: Stage) -> None:
    case.body(stage)
