"""What was measured, as JSON with everything and as tables for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.comparison import DURATION, Results, Row
from benchmarks.history import OURS, WORKERS, Figure, MeasuredRow, ratio_name
from benchmarks.measure import PERCENTILES, Measurement, Memory, commit, machine
from benchmarks.text_table import number, table

RESULTS = Path(__file__).with_name("results")
NOT_MEASURED = "–"  # noqa: RUF001 (the sign for it)

Cost = Callable[[Measurement], float | None]
COSTS: dict[str, Cost] = {
    "CPU µs/request": lambda each: each.cpu_us_per_request,
    "CPU ms/MB": lambda each: each.cpu_ms_per_mb,
}


def median_of(
    measurements: Iterable[Measurement], what: Callable[[Measurement], float | None]
) -> float | None:
    values = [value for value in map(what, measurements) if value is not None]
    return median(values) if values else None


def ratios(ours: list[Measurement], theirs: list[Measurement]) -> list[float]:
    """Round by round, above 1 where ours is faster; both were measured within seconds."""
    return [_ratio(own, peer) for own, peer in zip(ours, theirs, strict=True)]


def median_ratio(ours: list[Measurement], theirs: list[Measurement]) -> float | None:
    """The median of the rounds' ratios, if both have any."""
    return median(ratios(ours, theirs)) if ours and theirs else None


def _ratio(own: Measurement, peer: Measurement) -> float:
    for measure in (_duration_ms, _p99_ms):
        own_value, peer_value = measure(own), measure(peer)
        if own_value is not None and peer_value is not None:
            return peer_value / max(1e-9, own_value)
    return own.throughput / max(1e-9, peer.throughput)


@dataclass(frozen=True)
class Report:
    """The results of a run."""

    rounds: int
    seconds: float
    load_before: float
    versions: dict[str, str]
    missing: dict[str, str]
    results: Results
    start_seconds: dict[str, list[float]]
    idle: dict[str, Memory]
    loaded: dict[str, Memory]

    @property
    def own(self) -> list[str]:
        """Ours: one process, and workers if they were measured."""
        return [name for name in (OURS, WORKERS) if name in self.versions]

    @property
    def others(self) -> list[str]:
        return [name for name in self.versions if name not in self.own]

    def rows(self) -> list[MeasuredRow]:
        """What is kept of it over time."""
        return [self._measured_row(row) for row in self.results.rounds]

    def _measured_row(self, row: Row) -> MeasuredRow:
        by_peer = self.results.rounds[row]
        found = {
            ratio_name(own, other): Figure.of(ratios(by_peer[own], by_peer[other]))
            for own in self.own
            for other in by_peer
            if own in by_peer and own != other
        }
        against = self._compared_with(row)
        if against is not None:
            for name, measurements in by_peer.items():
                if others := self.results.of(against, name):
                    rounds = ratios(measurements, others)
                    found[ratio_name(name, against.title)] = Figure.of(rounds)
        return MeasuredRow(
            row=row.title,
            driver=row.driver,
            unit=row.unit,
            peers={name: figures(rounds) for name, rounds in by_peer.items()},
            ratios=found,
        )

    def _compared_with(self, row: Row) -> Row | None:
        found = (each for each in self.results.rounds if _is_compared_with(row, each))
        return next(found, None)

    def starts(self) -> MeasuredRow:
        return measured_starts(self.start_seconds, self.idle, self.loaded)

    def as_json(self) -> dict[str, Any]:
        return {
            "commit": commit(),
            "machine": machine(),
            "load average before": self.load_before,
            "versions": self.versions,
            "left out": self.missing,
            "rounds": self.rounds,
            "seconds per measurement": self.seconds,
            "rows": [
                {
                    "row": row.title,
                    "driver": row.driver,
                    "unit": row.unit,
                    "ratio": {
                        peer: median_ratio(by_peer[OURS], by_peer[peer])
                        for peer in self.others
                        if OURS in by_peer and peer in by_peer
                    }
                    if row.unit
                    else {},
                    "rounds": {
                        peer: [asdict(each) for each in measurements]
                        for peer, measurements in by_peer.items()
                    },
                }
                for row, by_peer in self.results.rounds.items()
            ],
            "failures": [failure.text for failure in self.results.failures],
            "start seconds": self.start_seconds,
            "memory idle": {name: asdict(memory) for name, memory in self.idle.items()},
            "memory after load": {name: asdict(memory) for name, memory in self.loaded.items()},
        }

    def markdown(self) -> str:
        tables = [
            *(self._heading(), self._throughput(), self._between_rows(), self._latency()),
            *(self._durations(), self._footprint(), self._failures()),
        ]
        return "\n\n".join(filter(None, tables))

    def _heading(self) -> str:
        where = machine()
        peers = ", ".join(f"{name} = {version}" for name, version in self.versions.items())
        return (
            f"{where['processor']}, {where['cores']} cores, Python {where['python']}; "
            f"{peers}; commit {commit()}; median of {self.rounds} rounds of {self.seconds:g} s; "
            f"load average before: {self.load_before:.1f}."
        )

    def _throughput(self) -> str:
        rows = [row for row in self.results.rounds if row.unit not in ("", DURATION)]
        if not rows:
            return ""
        # Rows without records, as of offset commits, are about requests only.
        costs = {
            title: what
            for title, what in COSTS.items()
            if any(
                median_of(measured, what) is not None
                for row in rows
                for measured in self.results.rounds[row].values()
            )
        }
        header = [
            *("row", "driver", "unit"),
            *self.own,
            *(column for name in self.others for column in (name, *self._names_of_ratios(name))),
            *(f"{title} {name}" for title in costs for name in self.versions),
        ]
        return table(header, [self._throughput_cells(row, list(costs.values())) for row in rows])

    def _throughput_cells(self, row: Row, costs: list[Cost]) -> list[str]:
        cells = [row.title, row.driver, row.unit]
        cells += [self._median(row, name, lambda each: each.throughput) for name in self.own]
        for name in self.others:
            cells.append(self._median(row, name, lambda each: each.throughput))
            cells += [self._ratio(row, own, name) for own in self.own]
        for what in costs:
            cells += [self._median(row, name, what) for name in self.versions]
        return cells

    def _names_of_ratios(self, other: str) -> list[str]:
        return [f"ours / {other}" if own == OURS else f"{own} / {other}" for own in self.own]

    def _median(self, row: Row, peer: str, what: Cost) -> str:
        return _cell(median_of(self.results.of(row, peer), what))

    def _ratio(self, row: Row, peer: str, other: str) -> str:
        ratio = median_ratio(self.results.of(row, peer), self.results.of(row, other))
        return NOT_MEASURED if ratio is None else f"{ratio:.2f}"

    def _between_rows(self) -> str:
        """Rows that are compared with another row of the same broker."""
        lines = []
        for row in self.results.rounds:
            other = self._compared_with(row)
            if other is None:
                continue
            cells = [row.title, other.name]
            for name in self.versions:
                own, theirs = self.results.of(row, name), self.results.of(other, name)
                ratio = median_ratio(own, theirs)
                cells.append(NOT_MEASURED if ratio is None else f"{ratio:.2f}")
                cells.append(_cell(_cost_ratio(own, theirs)))
            lines.append(cells)
        header = [column for name in self.versions for column in (name, f"CPU {name}")]
        return table(["row", "against", *header], lines) if lines else ""

    def _latency(self) -> str:
        rows = [row for row in self.results.rounds if not row.unit]
        if not rows:
            return ""
        lines = []
        for row in rows:
            cells = [row.title]
            for name in self.versions:
                for percentile in PERCENTILES:
                    value = median_of(self.results.of(row, name), partial(_latency_ms, percentile))
                    cells.append(NOT_MEASURED if value is None else f"{value:.3f}")
            lines.append(cells)
        header = [f"{name} {percentile} ms" for name in self.versions for percentile in PERCENTILES]
        return table(["row", *header], lines)

    def _durations(self) -> str:
        rows = [row for row in self.results.rounds if row.unit == DURATION]
        if not rows:
            return ""
        header = ["row", "driver", *(f"{own} ms" for own in self.own)]
        for name in self.others:
            header += [f"{name} ms"]
            header += [f"{name} / ours" if own == OURS else f"{name} / {own}" for own in self.own]
        header += [f"CPU ms {name}" for name in self.versions]
        return table(header, [self._duration_cells(row) for row in rows])

    def _duration_cells(self, row: Row) -> list[str]:
        cells = [row.title, row.driver]
        cells += [self._median(row, name, _duration_ms) for name in self.own]
        for name in self.others:
            cells.append(self._median(row, name, _duration_ms))
            cells += [self._ratio(row, own, name) for own in self.own]
        cells += [self._median(row, name, lambda each: each.cpu_ms) for name in self.versions]
        return cells

    def _footprint(self) -> str:
        lines = [
            ["start to first acknowledged record, s"]
            + [f"{median(self.start_seconds[name]):.2f}" for name in self.versions]
        ]
        for when, memories in (("idle", self.idle), ("after load", self.loaded)):
            lines.append(
                [f"resident memory {when}, MB (anonymous)"]
                + [
                    f"{memories[name].resident_mb:.0f} ({memories[name].anonymous_mb:.0f})"
                    for name in self.versions
                ]
            )
        return table(["", *self.versions], lines)

    def _failures(self) -> str:
        return "\n".join(f"- {failure.text}" for failure in self.results.failures)


def _is_compared_with(row: Row, other: Row) -> bool:
    return (row.against, row.driver, row.question) == (other.name, other.driver, other.question)


def _cost_ratio(own: list[Measurement], other: list[Measurement]) -> float | None:
    """Processor time per megabyte, of the rounds together: it is told in steps too large for one of them."""
    own_cost, other_cost = (
        median_of(rounds, lambda each: each.cpu_ms_per_mb) for rounds in (own, other)
    )
    if own_cost is None or not other_cost:
        return None
    return own_cost / other_cost


def _duration_ms(measurement: Measurement) -> float | None:
    return measurement.duration_ms


def _latency_ms(percentile: str, measurement: Measurement) -> float | None:
    return measurement.latency_ms.get(percentile)


def _p99_ms(measurement: Measurement) -> float | None:
    return measurement.latency_ms.get("p99")


def figures(measurements: Iterable[Measurement]) -> dict[str, Figure]:
    """Every measure of the rounds."""
    by_measure: dict[str, list[float]] = {}
    for measurement in measurements:
        for measure, value in measures(measurement).items():
            by_measure.setdefault(measure, []).append(value)
    return {measure: Figure.of(values) for measure, values in by_measure.items()}


def measures(measurement: Measurement) -> dict[str, float]:
    """What a measurement has, by name."""
    found = asdict(measurement)
    latencies: dict[str, float] = found.pop("latency_ms")
    found |= {f"{percentile}_ms": value for percentile, value in latencies.items()}
    if not found["throughput"]:
        del found["throughput"]
    return {name: float(value) for name, value in found.items() if value is not None}


def measured_starts(
    seconds: dict[str, list[float]], idle: dict[str, Memory], loaded: dict[str, Memory]
) -> MeasuredRow:
    """The row about starts and memory."""
    peers = {
        name: {
            "duration_ms": Figure.of([each * 1e3 for each in seconds[name]]),
            **{
                f"{when}_{measure}": Figure.of([value])
                for when, memories in (("idle", idle), ("loaded", loaded))
                for measure, value in asdict(memories[name]).items()
            },
        }
        for name in idle
    }
    return MeasuredRow("start, to the first acknowledged record", "raw", DURATION, peers, {})


def _cell(value: float | None) -> str:
    return NOT_MEASURED if value is None else number(value)


def write_json(name: str, report: Report) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    return path
