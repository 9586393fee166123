"""Copiers and the broker are killed again and again while a topic is copied: the loop that exactly once is about."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.clients.transactions_seen import OFFSETS_TOPIC
from tests.faults.copies import (
    GROUP_ID,
    SOURCE,
    TARGET,
    Work,
    aborted_records,
    check,
    copied_records,
    prepare,
)
from tests.faults.processes import BrokerProcess
from tests.groups.brokers import killable_node

from ottla.model import TopicPartition

ROOT = Path(__file__).parents[2]
TURN_RECORDS = 100
TRANSACTION_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 1_500
# No progress for so long is no progress at all.
STALL_SECONDS = 60.0
OPTIONS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "log.segment.bytes": 1_048_576,
}
# What copiers of the classic protocol ask for themselves.
NEW_PROTOCOL: dict[str, object] = {
    "group.consumer.heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": SESSION_TIMEOUT_MS,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.assignment.interval.ms": 0,
}


@dataclass
class Figures:
    """What a run was."""

    records: int
    seconds: float = 0.0
    broker_kills: int = 0
    copier_kills: int = 0
    # Written by transactions that a kill ended.
    aborted_records: int = 0

    def __str__(self) -> str:
        return (
            f"{self.records} records copied exactly once in {self.seconds:.0f} s over "
            f"{self.broker_kills} kills of the broker and {self.copier_kills} of copiers; "
            f"{self.aborted_records} records are in transactions that were aborted"
        )


class CopierProcess:
    """A copier that is killed and started again, always with the same transactional id."""

    def __init__(self, address: str, number: int, group_protocol: str, log: IO[bytes]) -> None:
        options = {
            "bootstrap.servers": address,
            "source": SOURCE,
            "target": TARGET,
            "group.id": GROUP_ID,
            "transactional.id": f"copier-{number}",
            "turn.records": TURN_RECORDS,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "group.protocol": group_protocol,
        }
        words = [f"{name}={value}" for name, value in options.items()]
        self._command = [sys.executable, "-m", "tests.faults.copier", *words]
        self._log = log
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )

    def restart(self) -> None:
        self.kill()
        self._process = self._started()

    def kill(self) -> None:
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()


@contextmanager
def copiers(address: str, protocols: list[str], folder: Path) -> Iterator[list[CopierProcess]]:
    with (folder / "copiers.log").open("ab") as log:
        running = [
            CopierProcess(address, number, protocol, log)
            for number, protocol in enumerate(protocols)
        ]
        try:
            yield running
        finally:
            for copier in running:
                copier.kill()


def wait_until_copied(address: str, work: Work, wanted: int) -> None:
    """Waits as long as there is progress."""
    last, since = -1, time.monotonic()
    while (copied := copied_records(address, work)) < wanted:
        if copied > last:
            last, since = copied, time.monotonic()
        assert time.monotonic() - since < STALL_SECONDS, f"stuck at {copied} of {work.total}"
        time.sleep(0.02)


def run(
    folder: Path,
    rng: random.Random,
    work: Work,
    kill_count: int,
    protocols: tuple[str, ...] = ("classic", "classic"),
) -> Figures:
    """Copies everything; kills copiers and the broker in turn, when so and so much is copied.

    There is a copier for each of the group protocols.
    """
    figures = Figures(work.total)
    moments = sorted(rng.randrange(work.total) for _ in range(kill_count))
    new = NEW_PROTOCOL if "consumer" in protocols else {}
    with killable_node(folder, {**OPTIONS, **new}) as broker:
        prepare(broker.address, work)
        began = time.monotonic()
        with copiers(broker.address, list(protocols), folder) as running:
            for number, moment in enumerate(moments):
                wait_until_copied(broker.address, work, moment)
                # Anywhere in a turn.
                time.sleep(rng.uniform(0, 0.1))
                if number % 2:
                    rng.choice(running).restart()
                    figures.copier_kills += 1
                else:
                    broker.kill()
                    broker.start()
                    figures.broker_kills += 1
            wait_until_copied(broker.address, work, work.total)
        figures.seconds = time.monotonic() - began
        internal = [TopicPartition(OFFSETS_TOPIC, number) for number in range(2)]
        check(broker.address, work, *internal)
        figures.aborted_records = aborted_records(broker.address, work)
        if isinstance(broker, BrokerProcess):
            assert broker.stop() == 0
    return figures
