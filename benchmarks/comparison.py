"""Runs rows against all peers in interleaved rounds and keeps what was measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.measure import MEGABYTE, Load, Measurement
from benchmarks.peers import Peer


@dataclass(frozen=True)
class Row:
    """One thing to measure; `unit` is what its throughput counts, empty for rows about latency."""

    question: str
    driver: str
    name: str
    unit: str
    run: Callable[[Peer, float], Measurement]

    @property
    def title(self) -> str:
        return f"{self.question}, {self.name}"


@dataclass
class Results:
    """Measurements by row and peer, in the order of the rounds."""

    rounds: dict[Row, dict[str, list[Measurement]]] = field(default_factory=dict)

    def add(self, row: Row, peer: str, measurement: Measurement) -> None:
        self.rounds.setdefault(row, {}).setdefault(peer, []).append(measurement)


def observed(peer: Peer, unit: str, run: Callable[[], Load]) -> tuple[Measurement, Load]:
    """Runs a load and relates the broker's processor time to it."""
    cpu_before, own_before = peer.cpu_seconds(), time.process_time()
    load = run()
    cpu = peer.cpu_seconds() - cpu_before
    own = time.process_time() - own_before
    amounts = {
        "requests/s": load.requests,
        "records/s": load.records,
        "MB/s": load.value_bytes / MEGABYTE,
    }
    measurement = Measurement(
        throughput=amounts[unit] / load.seconds,
        cpu_us_per_request=cpu * 1e6 / max(1, load.requests),
        cpu_ms_per_mb=cpu * 1e3 / max(1e-9, load.value_bytes / MEGABYTE),
        broker_cores=cpu / load.seconds,
        generator_cores=own / load.seconds,
    )
    return measurement, load


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
                say(f"round {number} of {rounds}: {row.title} ({row.driver}) on {peer.name}")
                measurement = row.run(peer, seconds)
                if number > 0:
                    results.add(row, peer.name, measurement)
    return results
