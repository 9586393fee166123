"""What does an exactly-once pipeline of Spark cost, and how long until a reader has a row?

Run: python -m benchmarks.bench_spark_pipeline
BENCH_ROWS is the length of the backlog, BENCH_LIMIT the most rows of a micro-batch. BENCH_PAIRS says how often
exactly-once and at-least-once are measured one right after the other at the end: they differ by less than the machine's
speed varies.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from importlib.metadata import version as installed_version
from statistics import median

from benchmarks.comparison import say
from benchmarks.measure import commit, interval_of_median, machine, other_work
from benchmarks.report import RESULTS
from benchmarks.spark_pipelines import (
    AT_LEAST_ONCE,
    CONNECTOR_VERSION,
    EXACTLY_ONCE,
    SPARK_CONNECTOR,
    VARIANTS,
    Run,
    Stage,
    staged,
)
from benchmarks.text_table import number, table

DEFAULT_ROUNDS = 3
DEFAULT_ROWS = 2_000_000
DEFAULT_LIMIT = 250_000
DEFAULT_PAIRS = 12
LATENCY_SECONDS = 10.0
KINDS = ("java", "python", "broker")

Runs = dict[str, list[Run]]


def rate_ratios(own: list[Run], other: list[Run]) -> list[float]:
    """Round by round: both were measured within seconds."""
    return [one.rate / two.rate for one, two in zip(own, other, strict=True)]


def cost_ratios(own: list[Run], other: list[Run]) -> list[float]:
    pairs = zip(own, other, strict=True)
    return [one.cpu_us_per_row() / two.cpu_us_per_row() for one, two in pairs]


def throughput_table(runs: Runs) -> str:
    ours = runs[EXACTLY_ONCE]
    header = [
        *("backlog", "rows/s", f"{EXACTLY_ONCE} / this", "micro-batch ms", "CPU µs/row"),
        *("CPU of exactly-once / this", *(f"CPU µs/row {kind}" for kind in KINDS)),
    ]
    lines = [
        [
            *(variant, number(median(each.rate for each in measured))),
            f"{median(rate_ratios(ours, measured)):.2f}",
            number(median(each.batch_ms for each in measured)),
            number(median(each.cpu_us_per_row() for each in measured)),
            f"{median(cost_ratios(ours, measured)):.2f}",
            *(number(median(each.cpu_us_per_row(kind) for each in measured)) for kind in KINDS),
        ]
        for variant, measured in runs.items()
    ]
    return table(header, lines)


def latency_table(runs: Runs) -> str:
    header = ["100 rows every 100 ms", "p50 ms", "p99 ms", "micro-batch ms", "CPU ms/micro-batch"]
    lines = [
        [
            variant,
            *(number(median(each.latency_ms[at] for each in measured)) for at in ("p50", "p99")),
            number(median(each.batch_ms for each in measured)),
            number(median(each.cpu_ms_per_batch for each in measured)),
        ]
        for variant, measured in runs.items()
    ]
    return table(header, lines)


def price_table(pairs: Runs) -> str:
    ours, other = pairs[EXACTLY_ONCE], pairs[AT_LEAST_ONCE]
    header = [f"{EXACTLY_ONCE} / {AT_LEAST_ONCE}", "median", "95 % interval", "least", "most"]
    found = {"rows/s": rate_ratios(ours, other), "CPU µs/row": cost_ratios(ours, other)}
    lines = []
    for name, ratios in found.items():
        low, high = interval_of_median(ratios)
        between = f"{low:.3f} to {high:.3f}"
        lines.append(
            [name, f"{median(ratios):.3f}", between, f"{min(ratios):.3f}", f"{max(ratios):.3f}"]
        )
    return table(header, lines)


def measure_pairs(stage: Stage, source: str, pairs: int, rows: int, limit: int) -> Runs:
    """Both ways to deliver, one right after the other, the first one of each pair in turn."""
    found: Runs = {EXACTLY_ONCE: [], AT_LEAST_ONCE: []}
    for turn in range(pairs):
        for variant in sorted(found, reverse=bool(turn % 2)):
            done = stage.throughput(variant, source, rows, limit)
            say(f"pair {turn + 1} of {pairs}: {variant}, {done.rate:,.0f} rows/s")
            found[variant].append(done)
    return found


def measure(
    rounds: int, pairs: int, rows: int, limit: int
) -> tuple[Runs, Runs, Runs, dict[str, str]]:
    """Every variant in turn, rounds beginning with another one each time; a first round is thrown away."""
    backlog: Runs = {}
    trickle: Runs = {}
    with staged() as (stage, missing):
        for name, reason in missing.items():
            print(f"{name} is left out: {reason}", file=sys.stderr)
        variants = [each for each in VARIANTS if each not in missing]
        say(f"{rows} rows are written")
        source = stage.filled_topic(rows)
        for turn in range(rounds + 1):
            shift = turn % len(variants)
            for variant in (*variants[shift:], *variants[:shift]):
                say(f"round {turn} of {rounds}: {variant}, backlog")
                done = stage.throughput(variant, source, rows, limit)
                say(
                    f"{done.rate:,.0f} rows/s, {done.cpu_us_per_row():.2f} µs of processors per row"
                )
                if turn:
                    backlog.setdefault(variant, []).append(done)
                say(f"round {turn} of {rounds}: {variant}, a few rows at a time")
                done = stage.latency(variant, LATENCY_SECONDS)
                say(f"{done.latency_ms['p50']:.0f} ms, {done.batch_ms:.0f} ms per micro-batch")
                if turn:
                    trickle.setdefault(variant, []).append(done)
        price = measure_pairs(stage, source, pairs, rows, limit)
    return backlog, trickle, price, missing


def run() -> None:
    rounds = int(os.environ.get("BENCH_ROUNDS", DEFAULT_ROUNDS))
    rows = int(os.environ.get("BENCH_ROWS", DEFAULT_ROWS))
    limit = int(os.environ.get("BENCH_LIMIT", DEFAULT_LIMIT))
    pairs = int(os.environ.get("BENCH_PAIRS", DEFAULT_PAIRS))
    load_before = other_work()
    backlog, trickle, price, missing = measure(rounds, pairs, rows, limit)
    where = machine()
    spark = installed_version("pyspark")
    print(
        f"{where['processor']}, {where['cores']} cores, Python {where['python']}; Spark {spark}, "
        f"{SPARK_CONNECTOR} {CONNECTOR_VERSION}; commit {commit()}; median of {rounds} rounds; backlog of {rows:,} "
        f"rows, {limit:,} per micro-batch; load average before: {load_before:.1f}.\n"
    )
    ordered = [each for each in VARIANTS if each in backlog]
    print(throughput_table({each: backlog[each] for each in ordered}), end="\n\n")
    print(latency_table({each: trickle[each] for each in ordered}))
    if pairs:
        print(f"\n{pairs} pairs:\n\n{price_table(price)}")
    content = {
        "commit": commit(),
        "machine": where,
        "load average before": load_before,
        "pyspark": spark,
        "left out": missing,
        "rows": rows,
        "limit": limit,
        "backlog": {name: [asdict(each) for each in found] for name, found in backlog.items()},
        "trickle": {name: [asdict(each) for each in found] for name, found in trickle.items()},
        "pairs": {name: [asdict(each) for each in found] for name, found in price.items()},
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "spark-pipeline.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path}", file=sys.stderr)


if __name__ == "__main__":
    run()
