"""What a run has measured, group by group, as it is kept and compared."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from benchmarks.client_comparison import ClientReport
from benchmarks.history import MeasuredRow, MeasuredRun
from benchmarks.measure import commit, machine, other_work
from benchmarks.report import Report


@dataclass
class Recording:
    """The rows of all groups, the versions of all peers, and what failed."""

    load_before: float = field(default_factory=other_work)
    rows: list[MeasuredRow] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add_group(self, report: Report) -> None:
        self.rows += report.rows()
        self.versions |= report.versions
        self.failures += [failure.text for failure in report.results.failures]

    def add_starts(self, report: Report) -> None:
        """How long the peers took to start, and their memory."""
        self.rows.append(report.starts())

    def add_clients(self, report: ClientReport) -> None:
        self.rows += report.rows()
        self.versions |= report.packages()

    def run(self, rounds: int, seconds: float) -> MeasuredRun:
        return MeasuredRun(
            commit=commit(),
            date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            machine=machine(),
            load_before=self.load_before,
            load_after=other_work(),
            versions=self.versions,
            rounds=rounds,
            seconds=seconds,
            rows=self.rows,
        )
