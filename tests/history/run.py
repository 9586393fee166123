"""Runs with real clients against the real server, one seed after the other, until the time is over.

python -m tests.history.run --minutes 30 --seed 1
python -m tests.history.run --mutants
python -m tests.history.run --mutants --setting workers
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from tests.history.brokers import DIED, BrokerProcess, MutantProcess, MutantWorkers, WorkerProcesses
from tests.history.mutants import MUTANTS
from tests.history.round import SETTINGS, Report, Round
from tests.history.shared_brokers import SharedBrokers, SharedBrokersWithBucket
from tests.history.shared_mutants import SHARED_MUTANTS
from tests.storage.shared.sequencer.sql_bugs import SQL_BUGS

from ottla.broker.crashpoints import CrashPoint

ROUND_SECONDS = 25.0
MUTANT_ROUNDS = 4
# The settings that can run with a bug.
MUTANT_BROKERS: dict[type[BrokerProcess], type[MutantProcess | MutantWorkers | SharedBrokers]] = {
    BrokerProcess: MutantProcess,
    WorkerProcesses: MutantWorkers,
    SharedBrokers: SharedBrokers,
    SharedBrokersWithBucket: SharedBrokersWithBucket,
}
# Of brokers on shared storage; tests of the sequencer find those of SQL that need two calls at the same moment.
ALL_SHARED_MUTANTS = (*SHARED_MUTANTS, *SQL_BUGS)
MOST_PRINTED = 20
# Rounds that fail one after the other have the same reason.
MOST_FAILED = 20


def run_round(setting: str, seed: int, seconds: float, folder: Path) -> Report | None:
    """What one round without anomaly has done; the folder of another stays."""
    again = (
        f"python -m tests.history.run --minutes 0 --setting {setting} --seed {seed} "
        f"--seconds {seconds:g}"
    )
    try:
        report = Round(SETTINGS[setting], folder, seed).run(seconds)
    except Exception as error:
        print(f"{setting} seed {seed}: FAILED: {error!r}")
        print(f"  the history is in {folder}; repeat it: {again}", flush=True)
        return None
    print(report, flush=True)
    if not report.anomalies:
        shutil.rmtree(folder)
        return report
    for anomaly in report.anomalies[:MOST_PRINTED]:
        print(f"  {anomaly}")
    print(f"  {len(report.anomalies)} anomalies; the history is in {folder}; repeat it: {again}")
    sys.stdout.flush()
    return None


def run_for(
    minutes: float, seed: int, keep: Path, names: Sequence[str], seconds: float = ROUND_SECONDS
) -> tuple[int, int]:
    """Rounds with rising seeds, at least one; how many there were, and how many failed."""
    end = time.monotonic() + minutes * 60
    failed = number = 0
    counts: Counter[str] = Counter()
    while number == 0 or (time.monotonic() < end and failed < MOST_FAILED):
        setting = names[number % len(names)]
        folder = keep / f"{setting}-{seed + number}"
        report = run_round(setting, seed + number, seconds, folder)
        if report is None:
            failed += 1
        else:
            counts += report.counts + report.deeds
        number += 1
    unseen = [point.name for point in CrashPoint if f"{DIED}{point.name}" not in counts]
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    print(f"crash points without a death: {', '.join(unseen) or 'none'}", flush=True)
    return number, failed


def find_mutants(names: Sequence[str], setting: str, seed: int, seconds: float, keep: Path) -> int:
    """Whether brokers with bugs are told from the others; how many were not."""
    missed = 0
    healthy = SETTINGS[setting]
    for name in names:
        broker = type(name, (MUTANT_BROKERS[healthy.broker],), {"mutant": name})
        mutated = replace(healthy, name=name, broker=broker)
        found: Counter[str] = Counter()
        rounds = 0
        while not found and rounds < MUTANT_ROUNDS:
            folder = keep / f"{name}-{seed + rounds}"
            try:
                report = Round(mutated, folder, seed + rounds).run(seconds)
                found = Counter(anomaly.kind.name for anomaly in report.anomalies)
            except (AssertionError, TimeoutError) as error:
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
    parser.add_argument("--setting", nargs="+", choices=SETTINGS, help="one or more of all")
    parser.add_argument("--keep", type=Path, help="where histories of failures are kept")
    parser.add_argument(
        "--mutants",
        nargs="*",
        choices=(*MUTANTS, *ALL_SHARED_MUTANTS),
        help="run brokers with bugs: these, or all that the setting has",
    )
    options = parser.parse_args(arguments)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="ottla-history-"))
    if options.mutants is not None:
        (setting, *others) = options.setting or ["one"]
        if others or SETTINGS[setting].broker not in MUTANT_BROKERS:
            parser.error(
                "--mutants takes one setting, of one node, of workers or on shared storage"
            )
        is_shared = issubclass(SETTINGS[setting].broker, SharedBrokers)
        known = SHARED_MUTANTS if is_shared else MUTANTS
        names = options.mutants or list(known)
        allowed = ALL_SHARED_MUTANTS if is_shared else tuple(MUTANTS)
        if not set(names) <= set(allowed):
            parser.error(f"the setting {setting} has {', '.join(allowed)}")
        return bool(find_mutants(names, setting, options.seed, options.seconds, keep))
    settings = options.setting or list(SETTINGS)
    rounds, failed = run_for(options.minutes, options.seed, keep, settings, options.seconds)
    print(f"{rounds} rounds, {failed} failed")
    return bool(failed)


def _end(number: int, frame: FrameType | None) -> None:
    """Ends as an exception does: the processes of the round go first."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
