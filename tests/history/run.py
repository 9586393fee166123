"""Runs with real clients against the real server, one seed after the other, until the time is over.

python -m tests.history.run --minutes 30 --seed 1
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.history.brokers import MutantProcess
from tests.history.mutants import MUTANTS
from tests.history.round import SETTINGS, Report, Round

ROUND_SECONDS = 25.0
MUTANT_ROUNDS = 4


def run_round(setting: str, seed: int, seconds: float, folder: Path) -> Report:
    """One round in a folder, which is removed if all is well."""
    report = Round(SETTINGS[setting], folder, seed).run(seconds)
    if not report.anomalies:
        shutil.rmtree(folder)
    return report


def find_mutants(names: list[str], seed: int, seconds: float, keep: Path) -> int:
    """Whether brokers with bugs are told from the others; how many were not."""
    missed = 0
    for name in names:
        broker = type(name, (MutantProcess,), {"mutant": name})
        setting = replace(SETTINGS["one"], name=name, broker=broker)
        found: Counter[str] = Counter()
        rounds = 0
        while not found and rounds < MUTANT_ROUNDS:
            folder = keep / f"{name}-{seed + rounds}"
            try:
                report = Round(setting, folder, seed + rounds).run(seconds)
                found = Counter(anomaly.kind.name for anomaly in report.anomalies)
            except AssertionError as error:
                found[str(error)] += 1
            shutil.rmtree(folder)
            rounds += 1
        missed += not found
        print(f"{name}: {dict(found) or 'NOT FOUND'} after {rounds} round(s)", flush=True)
    return missed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history.run")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--seconds", type=float, default=ROUND_SECONDS, help="of each round")
    parser.add_argument("--setting", choices=[*SETTINGS, "all"], default="all")
    parser.add_argument("--keep", type=Path, help="where histories of failures are kept")
    parser.add_argument(
        "--mutants", nargs="*", choices=MUTANTS, help="run brokers with bugs: these, or all"
    )
    options = parser.parse_args(arguments)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="ottla-history-"))
    if options.mutants is not None:
        return find_mutants(options.mutants or list(MUTANTS), options.seed, options.seconds, keep)
    names = list(SETTINGS) if options.setting == "all" else [options.setting]
    end = time.monotonic() + options.minutes * 60
    failures = number = 0
    while number == 0 or time.monotonic() < end:
        setting, seed = names[number % len(names)], options.seed + number
        folder = keep / f"{setting}-{seed}"
        again = f"python -m tests.history.run --minutes 0 --setting {setting} --seed {seed}"
        try:
            report = run_round(setting, seed, options.seconds, folder)
        except Exception as error:
            failures += 1
            print(f"{setting} seed {seed}: FAILED: {error!r}; {folder}; {again}", flush=True)
        else:
            print(report, flush=True)
            if report.anomalies:
                failures += 1
                for anomaly in report.anomalies[:20]:
                    print(f"  {anomaly}")
                print(f"  {len(report.anomalies)} anomalies; {folder}; {again}", flush=True)
        number += 1
    print(f"{number} rounds, {failures} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
