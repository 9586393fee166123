"""What the tests of groups run against: Ottla, and Apache Kafka to see that the tests are right."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import maven
from tests.apache_kafka.programs import running_kafka
from tests.lasting import LASTING
from tests.maven import KAFKA_VERSION, NO_LOGGING

from ottla.testing import Broker

# "ottla", "kafka", or the address of a broker with the options below.
WHICH = os.environ.get("OTTLA_TEST_BROKER") or "ottla"

OPTIONS: dict[str, object] = {
    **LASTING,
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
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
def one_node(folder: Path) -> Iterator[Running]:
    if WHICH == "ottla":
        with Broker(OPTIONS) as broker:
            yield Running(broker.bootstrap_servers, broker)
    elif WHICH == "kafka":
        artifacts = {"org.apache.kafka:kafka_2.13": KAFKA_VERSION, **NO_LOGGING}
        jars = maven.jars(f"kafka-{KAFKA_VERSION}", artifacts, folder.parent)
        with running_kafka(jars, folder, OPTIONS) as address:
            yield Running(address)
    else:
        yield Running(WHICH)


@contextmanager
def three_nodes() -> Iterator[Running]:
    if WHICH != "ottla":
        pytest.skip("three nodes in one process are Ottla's")
    with Broker(OPTIONS, nodes=3) as broker:
        yield Running(broker.bootstrap_servers, broker)
