"""Runs rows against all peers in interleaved rounds and keeps what was measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from benchmarks.frames import RefusedError
from benchmarks.measure import MEGABYTE, Load, Measurement
from benchmarks.peers import Peer
from confluent_kafka import KafkaException

DURATION = "ms"
# What a broker can do to a load; the other rows are measured all the same, and the run fails at its end.
FAILURES = (RefusedError, OSError, EOFError, KafkaException)


@dataclass(frozen=True)
class Row:
    """One thing to measure; `unit` is what its throughput counts, DURATION, or empty for rows about latency."""

    question: str
    driver: str
    name: str
    unit: str
    run: Callable[[Peer, float], Measurement]
    # The name of the row that this one is also compared with, broker by broker.
    against: str = ""

    @property
    def title(self) -> str:
        return f"{self.question}, {self.name}"


class Failure(NamedTuple):
    """A row that a peer could not be measured in."""

    row: Row
    peer: str
    reason: str

    @property
    def text(self) -> str:
        return f"{self.row.title} ({self.row.driver}) failed on {self.peer}: {self.reason}"


@dataclass
class Results:
    """Measurements by row and peer, in the order of the rounds."""

    rounds: dict[Row, dict[str, list[Measurement]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, row: Row, peer: str, measurement: Measurement) -> None:
        self.rounds.setdefault(row, {}).setdefault(peer, []).append(measurement)

    def of(self, row: Row, peer: str) -> list[Measurement]:
        """A measurement for each round, or none at all."""
        return self.rounds.get(row, {}).get(peer, [])

    def fail(self, row: Row, peer: str, reason: str) -> None:
        """The peer is left out of the row, its earlier rounds too: ratios are those of rounds that both have."""
        self.failures.append(Failure(row, peer, reason))
        self.rounds.get(row, {}).pop(peer, None)

    def has_failed(self, row: Row, peer: str) -> bool:
        return any((failure.row, failure.peer) == (row, peer) for failure in self.failures)


def observed(peer: Peer, unit: str, run: Callable[[], Load]) -> tuple[Measurement, Load]:
    """Runs a load and relates the broker's processor time to it."""
    cpu_before, own_before = peer.cpu_seconds(), time.process_time()
    load = run()
    cpu = peer.cpu_seconds() - cpu_before
    own = time.process_time() - own_before + load.client_cpu_seconds
    amounts = {
        "requests/s": load.requests,
        "transactions/s": load.requests,
        "records/s": load.records,
        "MB/s": load.value_bytes / MEGABYTE,
    }
    measurement = Measurement(
        throughput=amounts[unit] / load.seconds,
        cpu_us_per_request=cpu * 1e6 / max(1, load.requests),
        cpu_ms_per_mb=cpu * 1e3 * MEGABYTE / load.value_bytes if load.value_bytes else None,
        broker_cores=cpu / load.seconds,
        generator_cores=own / load.seconds,
    )
    return measurement, load


# What surrounds one measurement of a duration: it gives what is timed, which says how many seconds it took.
Scenario = Callable[[], AbstractContextManager[Callable[[], float]]]


def timed(peer: Peer, seconds: float, scenario: Scenario) -> Measurement:
    """Runs a scenario again and again for some seconds, at least once.

    Of the durations the median counts, of processor time the mean.
    """
    durations: list[float] = []
    cpu = own = 0.0
    end = time.perf_counter() + seconds
    while not durations or time.perf_counter() < end:
        with scenario() as act:
            cpu_before, own_before = peer.cpu_seconds(), time.process_time()
            durations.append(act())
            cpu += peer.cpu_seconds() - cpu_before
            own += time.process_time() - own_before
    return Measurement(
        duration_ms=median(durations) * 1e3,
        cpu_ms=cpu * 1e3 / len(durations),
        generator_cores=own / sum(durations),
    )


def say(text: str) -> None:
    """Progress, with the time since the start."""
    print(f"{time.perf_counter() - _STARTED:6.1f} s {text}", file=sys.stderr, flush=True)


_STARTED = time.perf_counter()


def compare(rows: Sequence[Row], peers: Sequence[Peer], *, rounds: int, seconds: float) -> Results:
    """Every row against every peer in turn, so that a busy moment of the machine meets all of them.

    A first round is thrown away: the Java virtual machine compiles in it.
    """
    results = Results()
    for number in range(rounds + 1):
        # Each peer goes first in some rounds.
        shift = number % len(peers)
        order = [*peers[shift:], *peers[:shift]]
        for row in rows:
            for peer in order:
                if results.has_failed(row, peer.name):
                    continue
                say(f"round {number} of {rounds}: {row.title} ({row.driver}) on {peer.name}")
                try:
                    measurement = row.run(peer, seconds)
                except FAILURES as error:
                    results.fail(row, peer.name, f"{type(error).__name__}: {error}")
                    say(results.failures[-1].text)
                    continue
                if number > 0:
                    results.add(row, peer.name, measurement)
    return results
