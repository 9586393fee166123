"""What has a change cost our clients? This checkout against another one, in alternation: BENCH_OTHER is its folder.

Run: BENCH_OTHER=/path/to/checkout python -m benchmarks.bench_client_change
The other checkout has to be built. Both clients talk to the same broker, that of this checkout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.client_comparison import DEFAULT_ROUNDS, DEFAULT_SECONDS, Question, measure_program
from benchmarks.comparison import say
from benchmarks.measure import commit, interval_of_median, other_work
from benchmarks.peers import Ottla, Peer
from benchmarks.text_table import number, table

from benchmarks import bench_client_consume, bench_client_produce

QUESTIONS = (bench_client_produce.QUESTION, bench_client_consume.QUESTION)


def cpu_us_per_record(
    question: Question, program: str, peer: Peer, seconds: float, sources: Path | None
) -> float:
    environment = dict(os.environ)
    if sources is not None:
        environment["PYTHONPATH"] = str(sources)
    done = measure_program(question, program, peer, seconds, environment)
    return done.cpu_seconds * 1e6 / max(1, done.records)


def cost_pairs(
    question: Question, program: str, peer: Peer, other: Path, rounds: int, seconds: float
) -> list[tuple[float, float]]:
    """The cost of this checkout and of the other one, round by round, each first in turn."""
    costs: list[tuple[float, float]] = []
    for turn in range(rounds):
        say(f"{program}: round {turn + 1} of {rounds}")
        pair = {
            sources: cpu_us_per_record(question, program, peer, seconds, sources)
            for sources in ((None, other) if turn % 2 else (other, None))
        }
        costs.append((pair[None], pair[other]))
    return costs


def line(program: str, costs: Sequence[tuple[float, float]]) -> list[str]:
    """A line of the table: the median cost of both, and of the rounds' ratios with their 95 % interval."""
    ratios = [own / others for own, others in costs]
    low, high = interval_of_median(ratios)
    own_cost, other_cost = (median(each[index] for each in costs) for index in (0, 1))
    return [
        program,
        number(own_cost),
        number(other_cost),
        f"{median(ratios):.3f}",
        f"{low:.3f} to {high:.3f}",
    ]


def run(other: Path) -> None:
    rounds = int(os.environ.get("BENCH_ROUNDS", DEFAULT_ROUNDS))
    seconds = float(os.environ.get("BENCH_SECONDS", DEFAULT_SECONDS))
    load_before = other_work()
    peer = Ottla()
    peer.start()
    try:
        lines = [
            line(program, cost_pairs(question, program, peer, other, rounds, seconds))
            for question in QUESTIONS
            for program in question.programs
            if program.startswith("ottla")
        ]
    finally:
        peer.stop()
    print(f"commit {commit()}; {rounds} rounds; load average before: {load_before:.1f}\n")
    print(table(["client CPU µs/record", "this", "other", "this / other", "95 % interval"], lines))


if __name__ == "__main__":
    folder = Path(os.environ.get("BENCH_OTHER", "")) / "src"
    if not (folder / "ottla").is_dir():
        sys.exit("BENCH_OTHER names the folder of another checkout, with its kernels built")
    run(folder)
