"""Has a request become dearer since the newest run that is kept?

Figures of two runs on a shared machine say little about the code: other programs, the compiler of the Java virtual
machine and the host differ. So a row that looks dearer is only a suspect, and is measured again: this checkout and
that of the kept run in alternation (ADR 0063).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.bench_change import peers_of
from benchmarks.bench_client_change import QUESTIONS, cost_pairs
from benchmarks.comparison import Row, compare
from benchmarks.history import KAFKA, OURS, MeasuredRow, MeasuredRun
from benchmarks.kafka_jars import UnavailableError
from benchmarks.measure import Measurement, interval_of_median
from benchmarks.peers import Ottla
from benchmarks.rows import rows_with_plain_peers

ROOT = Path(__file__).parents[1]
LIMIT = 1.05
# With nine the 95 % interval of the median leaves out the least and the most of them.
ROUNDS = 9
BUILD_SECONDS = 300


@dataclass(frozen=True)
class Suspect:
    """A row that costs more than in the kept run, the speed of the machine taken into account."""

    row: MeasuredRow
    cost: float
    cost_before: float
    machine_factor: float
    # Whether its cheapest round is dearer than the dearest of the kept run.
    is_apart: bool

    @property
    def name(self) -> str:
        return f"{self.row.row} ({self.row.driver})"

    @property
    def ratio(self) -> float:
        return self.cost / self.cost_before / self.machine_factor


@dataclass(frozen=True)
class Verdict:
    """What measuring in alternation has shown: the ratio of this checkout's cost to that of the kept run."""

    name: str
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def is_regression(self) -> bool:
        low, _ = interval_of_median(self.ratios)
        return self.ratio > LIMIT and low > 1

    @property
    def text(self) -> str:
        low, high = interval_of_median(self.ratios)
        return f"{self.name}: {self.ratio:.3f} of the CPU, 95 % interval {low:.3f} to {high:.3f}"


def machine_factor(run: MeasuredRun, base: MeasuredRun) -> float:
    """How much more processor time the same Kafka took than in the kept run, by the median row."""
    if run.versions.get(KAFKA) is None or run.versions.get(KAFKA) != base.versions.get(KAFKA):
        return 1.0
    factors = [
        now.median / before.median
        for row in run.rows
        if (now := row.cost(KAFKA)) is not None
        and (other := base.row(*row.key)) is not None
        and (before := other.cost(KAFKA)) is not None
        and before.median
    ]
    return median(factors) if factors else 1.0


def suspects(run: MeasuredRun, base: MeasuredRun) -> list[Suspect]:
    """Rows of ours whose processor time has grown by more than the limit."""
    factor = machine_factor(run, base)
    found = []
    for row in run.rows:
        other = base.row(*row.key)
        now, before = row.cost(OURS), other.cost(OURS) if other is not None else None
        if now is None or before is None or not before.median:
            continue
        suspect = Suspect(
            row=row,
            cost=now.median,
            cost_before=before.median,
            machine_factor=factor,
            is_apart=now.least > LIMIT * before.most * factor,
        )
        if suspect.ratio > LIMIT:
            found.append(suspect)
    return found


def regressions(run: MeasuredRun, base: MeasuredRun | None, seconds: float) -> list[str]:
    """What has become dearer by more than the limit, one line each."""
    if base is None:
        _say("no run of a machine of this kind is kept: nothing is compared")
        return []
    if base.commit == run.commit:
        _say(f"the newest kept run is of this commit, {run.commit}: nothing is compared")
        return []
    found = suspects(run, base)
    if not found:
        _say(f"no row is dearer by {LIMIT - 1:.0%} than at {base.commit} ({base.date})")
        return []
    _say(f"dearer than at {base.commit}, to be measured in alternation:")
    for suspect in found:
        _say(f"  {suspect.name}: {suspect.ratio:.3f}")
    try:
        with checkout(base.commit) as folder:
            verdicts = measured_in_alternation(found, folder, seconds)
    except UnavailableError as error:
        _say(f"{base.commit} cannot be measured: {error}")
        return apart(found, base)
    for verdict in verdicts:
        _say(f"  {verdict.text}")
    return [f"{each.text} (since {base.commit})" for each in verdicts if each.is_regression]


def apart(found: Iterable[Suspect], base: MeasuredRun) -> list[str]:
    """Where the other checkout cannot be measured: rows whose rounds are all dearer than all rounds before."""
    return [
        f"{suspect.name}: {suspect.ratio:.3f} of the CPU at {base.commit}, in all rounds; not measured in alternation"
        for suspect in found
        if suspect.is_apart
    ]


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A worktree of another commit with its kernels built as ours are."""
    with tempfile.TemporaryDirectory(prefix="bench-base-") as parent:
        folder = Path(parent) / "checkout"
        _run("git", "-C", str(ROOT), "worktree", "add", "--detach", str(folder), commit)
        try:
            if is_compiled(ROOT):
                _run(sys.executable, "setup.py", "build_ext", "--inplace", "-q", folder=folder)
            if is_compiled(folder) != is_compiled(ROOT):
                raise UnavailableError(
                    "one of the two has its kernels compiled and the other one not"
                )
            yield folder
        finally:
            _run("git", "-C", str(ROOT), "worktree", "remove", "--force", str(folder))


def is_compiled(folder: Path) -> bool:
    """Whether every kernel of a checkout has its compiled module."""
    sources = list((folder / "src").rglob("*.pyx"))
    return all(any(path.parent.glob(f"{path.stem}.*.so")) for path in sources)


def _run(*command: str, folder: Path = ROOT) -> None:
    try:
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip()
        raise UnavailableError(f"{' '.join(command)}: {said[-300:]}") from error


def measured_in_alternation(
    found: Sequence[Suspect], folder: Path, seconds: float
) -> list[Verdict]:
    """Every suspect again, with this checkout and the other one in turn."""
    keys = {suspect.row.key for suspect in found}
    rows = [row for row in rows_with_plain_peers() if (row.title, row.driver) in keys]
    return [*_brokers(rows, folder, seconds), *_clients(found, folder, seconds)]


def _brokers(rows: Sequence[Row], folder: Path, seconds: float) -> list[Verdict]:
    if not rows:
        return []
    (own, other), _ = peers_of(folder)
    try:
        for peer in (own, other):
            peer.start()
        results = compare(rows, [own, other], rounds=ROUNDS, seconds=seconds)
    finally:
        for peer in (own, other):
            peer.stop()
    return [
        Verdict(
            f"{row.title} ({row.driver})",
            cost_ratios(results.of(row, own.name), results.of(row, other.name)),
        )
        for row in rows
        if results.of(row, own.name) and results.of(row, other.name)
    ]


def cost_ratios(own: Sequence[Measurement], other: Sequence[Measurement]) -> list[float]:
    return [_cost(now) / max(1e-9, _cost(before)) for now, before in zip(own, other, strict=True)]


def _cost(measurement: Measurement) -> float:
    cost = measurement.cpu_us_per_request
    found = cost if cost is not None else measurement.cpu_ms
    assert found is not None, "a suspect has a cost"
    return found


def _clients(found: Sequence[Suspect], folder: Path, seconds: float) -> list[Verdict]:
    names = {suspect.row.row for suspect in found}
    wanted = [
        (question, program)
        for question in QUESTIONS
        for program in question.twins
        if question.row_name(program) in names
    ]
    if not wanted:
        return []
    peer = Ottla()
    peer.start()
    try:
        return [
            Verdict(
                question.row_name(program),
                [
                    own / other
                    for own, other in cost_pairs(
                        question, program, peer, folder / "src", ROUNDS, seconds
                    )
                ],
            )
            for question, program in wanted
        ]
    finally:
        peer.stop()


def _say(text: str) -> None:
    print(text, file=sys.stderr)
