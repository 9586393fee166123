"""What was measured, as JSON with everything and as tables for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.comparison import DURATION, Results, Row
from benchmarks.measure import Measurement, Memory, commit, machine

OURS = "ottla"
RESULTS = Path(__file__).with_name("results")
NOT_MEASURED = "–"  # noqa: RUF001 (the sign for it)

Cost = Callable[[Measurement], float | None]
COSTS: dict[str, Cost] = {
    "CPU µs/request": lambda each: each.cpu_us_per_request,
    "CPU ms/MB": lambda each: each.cpu_ms_per_mb,
}


def number(value: float) -> str:
    """Three significant digits, without exponents."""
    if value >= 100:
        digits = f"{value:.3g}"
        return f"{float(digits):,.0f}"
    return f"{value:.3g}"


def median_of(
    measurements: Iterable[Measurement], what: Callable[[Measurement], float | None]
) -> float | None:
    values = [value for value in map(what, measurements) if value is not None]
    return median(values) if values else None


def median_ratio(ours: list[Measurement], theirs: list[Measurement]) -> float:
    """The median of the rounds' ratios, above 1 where ours is faster; both were measured within seconds."""
    return median(_ratio(own, peer) for own, peer in zip(ours, theirs, strict=True))


def _ratio(own: Measurement, peer: Measurement) -> float:
    if own.duration_ms is not None and peer.duration_ms is not None:
        return peer.duration_ms / max(1e-9, own.duration_ms)
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
    def others(self) -> list[str]:
        return [name for name in self.versions if name != OURS]

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
                        peer: median_ratio(by_peer[OURS], by_peer[peer]) for peer in self.others
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
            "start seconds": self.start_seconds,
            "memory idle": {name: asdict(memory) for name, memory in self.idle.items()},
            "memory after load": {name: asdict(memory) for name, memory in self.loaded.items()},
        }

    def markdown(self) -> str:
        tables = [
            *(self._heading(), self._throughput(), self._between_rows(), self._latency()),
            *(self._durations(), self._footprint()),
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
            *("row", "driver", "unit", OURS),
            *(column for name in self.others for column in (name, f"ours / {name}")),
            *(f"{title} {name}" for title in costs for name in self.versions),
        ]
        return table(header, [self._throughput_cells(row, list(costs.values())) for row in rows])

    def _throughput_cells(self, row: Row, costs: list[Cost]) -> list[str]:
        by_peer = self.results.rounds[row]
        cells = [row.title, row.driver, row.unit]
        cells.append(_cell(median_of(by_peer[OURS], lambda each: each.throughput)))
        for name in self.others:
            cells.append(_cell(median_of(by_peer[name], lambda each: each.throughput)))
            cells.append(f"{median_ratio(by_peer[OURS], by_peer[name]):.2f}")
        for what in costs:
            cells += [_cell(median_of(by_peer[name], what)) for name in self.versions]
        return cells

    def _between_rows(self) -> str:
        """Rows that are compared with another row of the same broker."""
        lines = []
        for row in self.results.rounds:
            other = next(
                (each for each in self.results.rounds if _is_compared_with(row, each)), None
            )
            if other is None:
                continue
            cells = [row.title, other.name]
            for name in self.versions:
                own, theirs = self.results.rounds[row][name], self.results.rounds[other][name]
                cells.append(f"{median_ratio(own, theirs):.2f}")
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
                measured = self.results.rounds[row][name]
                cells += [
                    f"{median(each.latency_ms[percentile] for each in measured):.3f}"
                    for percentile in ("p50", "p99")
                ]
            lines.append(cells)
        header = [
            f"{name} {percentile} ms" for name in self.versions for percentile in ("p50", "p99")
        ]
        return table(["row", *header], lines)

    def _durations(self) -> str:
        rows = [row for row in self.results.rounds if row.unit == DURATION]
        if not rows:
            return ""
        header = [
            *("row", "driver", f"{OURS} ms"),
            *(column for name in self.others for column in (f"{name} ms", f"{name} / ours")),
            *(f"CPU ms {name}" for name in self.versions),
        ]
        return table(header, [self._duration_cells(row) for row in rows])

    def _duration_cells(self, row: Row) -> list[str]:
        by_peer = self.results.rounds[row]
        cells = [row.title, row.driver, _cell(median_of(by_peer[OURS], _duration_ms))]
        for name in self.others:
            cells.append(_cell(median_of(by_peer[name], _duration_ms)))
            cells.append(f"{median_ratio(by_peer[OURS], by_peer[name]):.2f}")
        cells += [
            _cell(median_of(by_peer[name], lambda each: each.cpu_ms)) for name in self.versions
        ]
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


def _cell(value: float | None) -> str:
    return NOT_MEASURED if value is None else number(value)


def table(header: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def write_json(name: str, report: Report) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    return path
