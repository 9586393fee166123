"""The results of runs, kept over time: a file for each run in benchmarks/history.

Run: python -m benchmarks.history add [FILE]      keeps what `make bench` measured (results/run.json), and
                                                  puts its summary into benchmarks/README.md
     python -m benchmarks.history table [FILE]    prints its summary; without a file, that of the newest run
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

HISTORY = Path(__file__).with_name("history")
README = Path(__file__).with_name("README.md")
# Between them the README has the tables of the newest run.
BEGIN, END = "<!-- the newest run -->", "<!-- the end of the newest run -->"
RUN_FILE = Path(__file__).with_name("results") / "run.json"
OURS, WORKERS, KAFKA, MOCK = "ottla", "ottla-2", "kafka", "mock"
CONFLUENT = "confluent-kafka"
# What makes two machines comparable.
MACHINE_KIND = ("processor", "cores", "python")
SIGNIFICANT_DIGITS = 4
# Measures in which less is better; of throughput more is.
COSTS = ("cpu_us_per_request", "cpu_us_per_record", "cpu_ms")


@dataclass(frozen=True)
class Figure:
    """The median of some rounds and their extremes."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(median(values), min(values), max(values))

    def as_json(self) -> list[float]:
        """Without digits that mean nothing."""
        values = (self.median, self.least, self.most)
        return [float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in values]


@dataclass(frozen=True)
class MeasuredRow:
    """One row of a run: what each peer did, and how the rounds of two of them compare.

    A ratio is above 1 where the first of the two is faster.
    """

    row: str
    driver: str
    unit: str
    peers: Mapping[str, Mapping[str, Figure]]
    ratios: Mapping[str, Figure]

    @property
    def key(self) -> tuple[str, str]:
        return self.row, self.driver

    def figure(self, peer: str, measure: str) -> Figure | None:
        return self.peers.get(peer, {}).get(measure)

    def ratio(self, peer: str, other: str) -> Figure | None:
        return self.ratios.get(ratio_name(peer, other))

    def cost(self, peer: str) -> Figure | None:
        """Processor time for one of what the row counts."""
        found = (self.figure(peer, measure) for measure in COSTS)
        return next((figure for figure in found if figure is not None), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "row": self.row,
            "driver": self.driver,
            "unit": self.unit,
            "peers": {
                peer: {name: figure.as_json() for name, figure in measures.items()}
                for peer, measures in self.peers.items()
            },
            "ratios": {name: figure.as_json() for name, figure in self.ratios.items()},
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            row=found["row"],
            driver=found["driver"],
            unit=found["unit"],
            peers={
                peer: {name: Figure(*values) for name, values in measures.items()}
                for peer, measures in found["peers"].items()
            },
            ratios={name: Figure(*values) for name, values in found["ratios"].items()},
        )


def ratio_name(peer: str, other: str) -> str:
    return f"{peer} / {other}"


@dataclass(frozen=True)
class MeasuredRun:
    """All rows of a run, with where and when it was."""

    commit: str
    date: str
    machine: Mapping[str, str | int]
    load_before: float
    load_after: float
    versions: Mapping[str, str]
    rounds: int
    seconds: float
    rows: Sequence[MeasuredRow]

    @property
    def is_busy(self) -> bool:
        """Whether other programs wanted more than the machine has: then rates and durations say little."""
        return max(self.load_before, self.load_after) > float(self.machine["cores"])

    @property
    def kind(self) -> tuple[str | int, ...]:
        return tuple(self.machine[name] for name in MACHINE_KIND)

    def row(self, row: str, driver: str) -> MeasuredRow | None:
        return next((each for each in self.rows if each.key == (row, driver)), None)

    def text(self) -> str:
        """As JSON with a line for each row, so that git shows which rows differ."""
        head = {
            "commit": self.commit,
            "date": self.date,
            "machine": self.machine,
            "load average before": self.load_before,
            "load average after": self.load_after,
            "versions": self.versions,
            "rounds": self.rounds,
            "seconds per measurement": self.seconds,
        }
        lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
        rows = ",\n".join(f"  {json.dumps(row.as_json())}" for row in self.rows)
        return "\n".join(["{", *lines, ' "rows": [', rows, " ]", "}"]) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(
            commit=found["commit"],
            date=found["date"],
            machine=found["machine"],
            load_before=found["load average before"],
            load_after=found["load average after"],
            versions=found["versions"],
            rounds=found["rounds"],
            seconds=found["seconds per measurement"],
            rows=[MeasuredRow.from_json(row) for row in found["rows"]],
        )


def read(path: Path) -> MeasuredRun:
    return MeasuredRun.from_text(path.read_text(encoding="utf-8"))


def load_runs(folder: Path = HISTORY) -> list[MeasuredRun]:
    """All runs that are kept, the oldest first."""
    return sorted(map(read, folder.glob("*.json")), key=lambda run: run.date)


def newest_of_kind(runs: Iterable[MeasuredRun], run: MeasuredRun) -> MeasuredRun | None:
    """The newest run on a machine of the same kind."""
    same = [each for each in runs if each.kind == run.kind]
    return max(same, key=lambda each: each.date, default=None)


class NotKeptError(Exception):
    """A run that cannot be compared with later ones; the message says why."""


def add(source: Path, folder: Path = HISTORY) -> Path:
    """Keeps a run; the name of its file is its date and commit."""
    run = read(source)
    if run.commit.endswith("-dirty") or run.commit == "unknown":
        raise NotKeptError(f"a run of {run.commit} has no commit: commit first, and measure again")
    if not run.rows:
        raise NotKeptError("the run has no rows")
    folder.mkdir(exist_ok=True)
    time = re.sub(r"[-:]", "", run.date)
    path = folder / f"{time}-{run.commit}.json"
    path.write_text(run.text(), encoding="utf-8")
    return path


def with_summary(text: str, tables: str) -> str:
    """A document with these tables between its two marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"no {BEGIN}"
    assert end, f"no {END}"
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def main(words: Sequence[str]) -> str:
    from benchmarks.summary import summary

    match words:
        case ["add", *files]:
            path = add(Path(files[0]) if files else RUN_FILE)
            text = README.read_text(encoding="utf-8")
            README.write_text(with_summary(text, summary(load_runs()[-1])), encoding="utf-8")
            return f"kept as {path}"
        case ["table", *files]:
            return summary(read(Path(files[0])) if files else load_runs()[-1])
    return __doc__ or ""


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]))
    except NotKeptError as error:
        sys.exit(str(error))
