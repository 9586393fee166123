"""Full collections of garbage wait for a moment at which no client does."""

from __future__ import annotations

import gc
import subprocess
import sys

from ottla.broker.loop.garbage import LEAST_SECONDS, MOST_SECONDS, NEVER, FullCollections


class Broker:
    """How much it received, and what time it is."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self.seconds = 100.0
        self.collected_at: list[float] = []
        self.collections = FullCollections(
            lambda: self.received_bytes,
            lambda: self.seconds,
            lambda: self.collected_at.append(self.seconds),
        )

    def go_on(self, seconds: float, received_bytes: int) -> None:
        self.seconds += seconds
        self.received_bytes += received_bytes
        self.collections.check()


def test_an_idle_broker_collects_now_and_then() -> None:
    broker = Broker()
    for _ in range(4):
        broker.go_on(LEAST_SECONDS / 2, 0)
    assert broker.collected_at == [100 + LEAST_SECONDS, 100 + 2 * LEAST_SECONDS]


def test_a_busy_broker_collects_when_it_is_idle_or_once_an_hour() -> None:
    broker = Broker()
    while broker.seconds < 100 + 2 * MOST_SECONDS:
        broker.go_on(10.0, 1)
    assert broker.collected_at == [100 + MOST_SECONDS, 100 + 2 * MOST_SECONDS]
    broker.go_on(LEAST_SECONDS, 1)
    assert len(broker.collected_at) == 2
    broker.go_on(10.0, 0)
    assert len(broker.collected_at) == 3


def test_only_a_broker_with_a_process_of_its_own_changes_how_python_collects() -> None:
    program = """
import asyncio, gc
from ottla.broker.runtime import BrokerSettings, start_broker
from ottla.config.broker import BrokerConfig

async def thresholds(own):
    broker = await start_broker(BrokerSettings(
        config=BrokerConfig.read({"listeners": "PLAINTEXT://127.0.0.1:0"}), has_own_process=own))
    found = gc.get_threshold()
    await broker.stop()
    return found

before = gc.get_threshold()
assert asyncio.run(thresholds(False)) == before
print(asyncio.run(thresholds(True))[2], gc.get_freeze_count() > 1000)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [str(NEVER), "True"]
    assert gc.get_threshold()[2] != NEVER
