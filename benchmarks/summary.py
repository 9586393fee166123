"""One table of a run: what Kafka does, what Ottla does with one process and with two workers, and the ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.history import CONFLUENT, KAFKA, MOCK, OURS, WORKERS, MeasuredRow, MeasuredRun
from benchmarks.text_table import number, table

NOTHING = "–"  # noqa: RUF001 (the sign for it)


@dataclass(frozen=True)
class Line:
    """One line: a measure of a row. Of costs and latencies the ratio is ours to theirs, and less is better."""

    row: str
    driver: str
    measure: str = "throughput"
    other: str = KAFKA

    @property
    def is_cost(self) -> bool:
        return self.measure.startswith(("cpu_", "p99"))

    @property
    def is_main_measure(self) -> bool:
        """Whether it is what the rounds' ratios of the row are about."""
        return self.measure in ("throughput", "duration_ms")

    def title(self, row: MeasuredRow) -> str:
        what = UNITS.get(self.measure, row.unit)
        less = ", less is better" if self.is_cost else ""
        against = f", against {self.other}" if self.other == CONFLUENT else ""
        return f"{row.row} ({row.driver}{against}), {what}{less}"

    def value(self, row: MeasuredRow, peer: str) -> float | None:
        if self.measure == PER_CORE:
            cost = row.figure(peer, "cpu_us_per_request")
            return 1e6 / cost.median if cost is not None and cost.median else None
        figure = row.figure(peer, self.measure)
        return figure.median if figure is not None else None

    def ratio(self, row: MeasuredRow, peer: str) -> float | None:
        """The rounds' ratio if the row has one, else that of the medians."""
        found = row.ratio(peer, self.other)
        if self.is_main_measure and found is not None:
            return found.median
        own, other = self.value(row, peer), self.value(row, self.other)
        return own / other if own is not None and other else None

    def cost_ratio(self, row: MeasuredRow, peer: str) -> float | None:
        """Ours to theirs, of the processor time for one of what the row counts."""
        own, other = row.cost(peer), row.cost(self.other)
        if not self.is_main_measure or own is None or other is None or not other.median:
            return None
        return own.median / other.median


PER_CORE = "per core"
UNITS = {
    PER_CORE: "requests/s of a core",
    "cpu_us_per_request": "CPU µs/request",
    "cpu_us_per_record": "CPU µs/record",
    "cpu_ms_per_mb": "CPU ms/MB",
    "p99_ms": "p99 ms",
    "p99.9_ms": "p99.9 ms",
}
CLIENT = f"client, broker {OURS}"
ONE_PER_REQUEST = "produce, 100 B, one per request"
BIG_BATCHES = "produce, 1 KB x 900"
CLIENT_ROWS = (
    "client produce, send",
    "client produce, send, on_delivery",
    "client produce, send_many",
    "client produce, send_arrow",
    "client consume, poll",
    "client consume, aio poll",
    "client consume, poll_arrow",
)


def _lines() -> Iterator[Line]:
    yield Line("produce, 1 KB batched", "librdkafka")
    yield Line(BIG_BATCHES, "raw")
    yield Line("produce, 100 B x 1000", "raw")
    yield Line("produce, 100 B batched", "librdkafka")
    for driver in ("librdkafka", "raw"):
        yield Line(f"{ONE_PER_REQUEST}, pipelined", driver)
    yield Line(f"{ONE_PER_REQUEST}, pipelined", "raw", PER_CORE)
    yield Line(f"{ONE_PER_REQUEST}, pipelined on 8 connections to 4 partitions", "raw")
    for driver in ("librdkafka", "raw"):
        yield Line(f"{ONE_PER_REQUEST}, one at a time", driver)
    for kind in ("plain", "idempotent", "transactional"):
        yield Line(f"produce, {kind}, 4 producers", "raw")
    yield Line(BIG_BATCHES, "raw", "cpu_ms_per_mb")
    yield Line("fetch, 1 KB in batches of 900", "librdkafka")
    yield Line("fetch, a batch of 1 KB x 900 per request", "raw")
    for percentile in ("p99_ms", "p99.9_ms"):
        yield Line("latency, 1 KB, 1000 requests/s", "raw", percentile)
    yield Line("offset commit, 1 partition, one at a time on 512 connections", "raw")
    yield Line("offset commit, 50 partitions, one at a time on 64 connections", "raw")
    for size in (500, 1000):
        yield Line(f"group, {size} members join at once", "raw", "duration_ms")
        yield Line(f"group, one joins a group of {size}", "raw", "duration_ms")
        yield Line(f"group, one leaves a group of {size + 1}", "raw", "duration_ms")
    for partitions in ("1 partition", "10 partitions"):
        for producers in ("1 producer", "8 producers"):
            yield Line(f"transactions, version 2, {partitions}, {producers}", "raw")
    for partitions in ("1 partition", "10 partitions"):
        yield Line(f"transactions, version 1, {partitions}, 8 producers", "raw")
    for row in (
        "produce, 1 KB in batches, TLS",
        "produce, 1 KB, one per request, TLS",
        "fetch, 1 KB in batches of 900, TLS",
    ):
        yield Line(row, "librdkafka")
    for row in CLIENT_ROWS:
        yield Line(row, CLIENT, other=CONFLUENT)
        yield Line(row, CLIENT, "cpu_us_per_record", other=CONFLUENT)


LINES = tuple(_lines())
TWO_CLIENTS = (
    "two clients, produce 1 KB x 900",
    "two clients, produce 100 B, one per request, pipelined",
    "two clients, fetch a batch of 1 KB x 900 per request",
)
# Rows of writers, and what they are compared with.
TRANSACTIONAL = tuple(
    (f"produce, transactional, {producers}", f"produce, idempotent, {producers}")
    for producers in ("1 producer", "4 producers")
)
ROWS_OF_SUMMARY = frozenset(
    [line.row for line in LINES]
    + [*TWO_CLIENTS]
    + [name for pair in TRANSACTIONAL for name in pair]
)


def summary(run: MeasuredRun) -> str:
    """The tables of a run, of what it has measured."""
    tables = [
        heading(run),
        *filter(None, (_lines_of(run), _workers_of(run), _transactional_of(run))),
    ]
    return "\n\n".join(tables)


def heading(run: MeasuredRun) -> str:
    versions = ", ".join(f"{name} = {version}" for name, version in run.versions.items())
    return (
        f"{run.machine['processor']}, {run.machine['cores']} cores, Python {run.machine['python']}; "
        f"{versions}; commit {run.commit}; {run.date}; median of {run.rounds} rounds of "
        f"{run.seconds:g} s; load average {run.load_before:.1f} before and {run.load_after:.1f} after."
    )


def _lines_of(run: MeasuredRun) -> str:
    lines = []
    for line in LINES:
        row = run.row(line.row, line.driver)
        if row is None:
            continue
        cells = [line.title(row), cell(line.value(row, line.other))]
        for peer in (OURS, WORKERS):
            cells += [cell(line.value(row, peer)), ratio_cell(line.ratio(row, peer))]
        cells.append(cell(line.value(row, MOCK)))
        lines.append([*cells, ratio_cell(line.cost_ratio(row, OURS))])
    header = ["row", KAFKA, OURS, "ratio", WORKERS, "ratio", MOCK, f"CPU {OURS} / {KAFKA}"]
    return table(header, lines) if lines else ""


def _workers_of(run: MeasuredRun) -> str:
    lines = []
    for name in TWO_CLIENTS:
        row = run.row(name, "raw")
        ratio = row.ratio(WORKERS, OURS) if row is not None else None
        if row is None or ratio is None:
            continue
        cells = [f"{row.row}, {row.unit}"]
        for peer in (OURS, WORKERS):
            for measure in ("throughput", "broker_cores", "generator_cores"):
                figure = row.figure(peer, measure)
                cells.append(cell(figure.median if figure is not None else None))
        lines.append([*cells, ratio_cell(ratio.median)])
    header = ["two workers against one"]
    for peer in (OURS, WORKERS):
        header += [peer, f"cores of {peer}", "of the clients"]
    return table([*header, f"{WORKERS} / {OURS}"], lines) if lines else ""


def _transactional_of(run: MeasuredRun) -> str:
    """By the clock more is better, by processor time less."""
    lines = []
    for name, other in TRANSACTIONAL:
        row, against = run.row(name, "raw"), run.row(other, "raw")
        if row is None or against is None:
            continue
        cells = [f"{row.row} / idempotent"]
        for peer in (KAFKA, OURS, WORKERS):
            rounds = row.ratio(peer, against.row)
            cells.append(ratio_cell(rounds.median if rounds is not None else None))
            cells.append(ratio_cell(_quotient(row, against, peer)))
        lines.append(cells)
    header = ["transactional against idempotent"]
    for peer in (KAFKA, OURS, WORKERS):
        header += [f"{peer}, clock", "CPU"]
    return table(header, lines) if lines else ""


def _quotient(row: MeasuredRow, other: MeasuredRow, peer: str) -> float | None:
    own, theirs = row.figure(peer, "cpu_ms_per_mb"), other.figure(peer, "cpu_ms_per_mb")
    return own.median / theirs.median if own is not None and theirs is not None else None


def cell(value: float | None, text: Callable[[float], str] = number) -> str:
    return NOTHING if value is None else text(value)


def ratio_cell(value: float | None) -> str:
    return cell(value, lambda found: f"{found:.2f}")


def rows_of(run: MeasuredRun, lines: Sequence[Line] = LINES) -> list[tuple[Line, MeasuredRow]]:
    """The lines that a run has rows for."""
    found = ((line, run.row(line.row, line.driver)) for line in lines)
    return [(line, row) for line, row in found if row is not None]
