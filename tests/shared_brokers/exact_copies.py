"""A topic is copied by processes with confluent-kafka while they and the brokers are killed: one copy of each record.

As `tests.faults.copying_run`, with three brokers on one storage.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer
from tests.clients.transactions_seen import open_transactions
from tests.faults.copier import QUICK
from tests.faults.copies import (
    SOURCE,
    TARGET,
    Work,
    committed_offsets,
    problems,
    read_target,
)
from tests.faults.copying_run import NEW_PROTOCOL, OPTIONS, STALL_SECONDS, Figures, copiers
from tests.shared_brokers.broker_processes import BrokerProcesses, wait_until

FLUSH_SECONDS = 120.0
QUEUE_RECORDS = 200_000
# A killed broker stays away for so long, of which a lease of three seconds is some.
AWAY_SECONDS = (0.0, 0.5, 5.0)


def broker_options() -> list[str]:
    options = {**OPTIONS, **NEW_PROTOCOL}
    return [word for name, value in options.items() for word in ("--set", f"{name}={value}")]


def prepare(brokers: BrokerProcesses, work: Work) -> None:
    """The topics, and what is to be copied."""
    for topic in (SOURCE, TARGET):
        brokers.create_topic(topic, work.partition_count)
    producer = Producer(
        {
            "bootstrap.servers": brokers.servers,
            "enable.idempotence": True,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            **QUICK,
        }
    )
    for partition in range(work.partition_count):
        for value in work.values(partition):
            producer.produce(SOURCE, value, partition=partition)
    assert producer.flush(FLUSH_SECONDS) == 0


class Progress:
    """Where the group of the copiers goes on; every broker is asked, as librdkafka may lose a coordinator for good."""

    def __init__(self, brokers: BrokerProcesses, work: Work) -> None:
        self._work = work
        self._addresses = [f"127.0.0.1:{port}" for port in brokers.ports]

    def offsets(self) -> dict[int, int]:
        """Empty while no coordinator tells."""
        for address in self._addresses:
            with suppress(OSError):
                found = committed_offsets(address, self._work)
                if found:
                    return {number: max(offset, 0) for number, offset in found.items()}
        return {}

    def wait_for(self, wanted: int) -> None:
        """Waits as long as there is progress."""
        last, since = -1, time.monotonic()
        while (copied := sum(self.offsets().values())) < wanted:
            if copied > last:
                last, since = copied, time.monotonic()
            stuck = f"stuck at {copied} of {self._work.total}"
            assert time.monotonic() - since < STALL_SECONDS, stuck
            time.sleep(0.05)


class Killer:
    """Kills brokers, which come back after a while."""

    def __init__(self, brokers: BrokerProcesses, rng: random.Random) -> None:
        self._brokers = brokers
        self._rng = rng
        self._returns: dict[int, float] = {}
        self.count = 0

    def kill(self) -> None:
        live = [n for n in range(len(self._brokers.ports)) if n not in self._returns]
        if len(live) == 1:  # one serves at any time, but for the moment of a takeover
            self.revive(lambda at: True)
            live = list(range(len(self._brokers.ports)))
        number = self._rng.choice(live)
        self._brokers.kill(number)
        self._returns[number] = time.monotonic() + self._rng.choice(AWAY_SECONDS)
        self.count += 1

    def revive(self, is_due: Callable[[float], bool]) -> None:
        for number, at in list(self._returns.items()):
            if is_due(at):
                del self._returns[number]
                self._brokers.start(number, *broker_options())


def run(
    brokers: BrokerProcesses,
    folder: Path,
    rng: random.Random,
    work: Work,
    kill_count: int,
    protocols: tuple[str, ...] = ("classic", "classic"),
) -> Figures:
    """Copies everything; kills brokers and copiers in turn, each `kill_count` times, at any time of a turn."""
    figures = Figures(work.total)
    moments = sorted(rng.randrange(work.total) for _ in range(2 * kill_count))
    prepare(brokers, work)
    progress, killer = Progress(brokers, work), Killer(brokers, rng)
    began = time.monotonic()
    with copiers(brokers.servers, list(protocols), folder) as running:
        for number, moment in enumerate(moments):
            progress.wait_for(moment)
            killer.revive(lambda at: at <= time.monotonic())
            time.sleep(rng.uniform(0, 0.1))
            if number % 2:
                rng.choice(running).restart()
                figures.copier_kills += 1
            else:
                killer.kill()
        killer.revive(lambda at: True)
        progress.wait_for(work.total)
    figures.seconds = time.monotonic() - began
    figures.broker_kills = killer.count
    addresses = [f"127.0.0.1:{port}" for port in brokers.ports]

    def is_at_rest() -> bool:
        try:
            return not open_transactions(addresses)
        except (AssertionError, OSError):  # a coordinator is being opened
            return False

    wait_until(is_at_rest)
    assert progress.offsets() == dict.fromkeys(
        range(work.partition_count), work.records_per_partition
    )
    assert problems(read_target(brokers.servers, work, "read_committed"), work) == []
    written = read_target(brokers.servers, work, "read_uncommitted")
    figures.aborted_records = sum(map(len, written.values())) - work.total
    for number in range(len(brokers.ports)):
        assert brokers.stop(number) == 0
    return figures
