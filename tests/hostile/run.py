"""Attacks against a broker in a process of its own: what they do to others, to its memory, and to what it has taken."""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.attacks import ATTACKS, Attack
from tests.hostile.target import Target

# However long an attack takes, the loop is not held for longer than this at a time.
LIMIT_SECONDS = 0.1
STOP_SECONDS = 15.0
AFTERMATH_SECONDS = 1.2
LEAVE_SECONDS = 1.0
# From when on an attack with all that it began is given up.
PATIENCE_SECONDS = 120.0
HELD_LINE = re.compile(r"the event loop was held for ([\d.]+) s")
WRONG_LOG_LINES = ("this is a bug", "Traceback", "MemoryError", "CRITICAL")


@dataclass
class Result:
    """What one attack did; memory in MB, beyond what the broker had before it."""

    name: str
    count: int
    held_ms: float | None = None  # None: the broker no longer says
    probe_ms: float = 0.0
    growth_mb: float = 0.0
    kept_mb: float = 0.0
    seconds: float = 0.0
    stop_seconds: float | None = None
    outcome: str = ""
    wrong: list[str] = field(default_factory=list)


def attack_once(target: Target, attack: Attack, count: int, limit_seconds: float) -> Result:
    """Runs one attack against a broker that is there; what is wrong is in the result."""
    result = Result(attack.name, count)
    probe = target.probe
    assert probe is not None
    held_before = target.last_held_seconds
    resident_before = target.peak_bytes = target.process.resident_bytes
    log_before = len(target.process.log)
    probe.reset()
    began = time.monotonic()
    try:
        result.outcome = attack.run(target, count)
    except (OSError, AssertionError) as error:
        result.outcome = f"{type(error).__name__}: {error}"
        if isinstance(error, AssertionError):
            result.wrong.append(str(error))
    result.seconds = time.monotonic() - began
    is_served = probe.go_on(2, target.patience_seconds)
    if is_served:
        # What the broker does when clients have gone is part of it; giving memory back comes a second later.
        target.close_all()
        time.sleep(AFTERMATH_SECONDS)
    result.probe_ms = 1000 * max(probe.longest_wait_seconds, probe.waits_seconds)
    if not is_served:
        result.wrong.append(probe.failure or "the probe is not served any more")
    held = target.held_seconds() if is_served else None
    added = target.process.log[log_before:]
    if held is not None:
        # The metric is of the last minute or two; what was long before that is in the log.
        held = max(held, *map(float, HELD_LINE.findall(added)), 0.0)
    result.growth_mb = (target.peak_bytes - resident_before) / 2**20
    if held is None:
        result.wrong.append("the loop is held")
    else:
        result.held_ms = 1000 * held
        if held > max(limit_seconds, held_before):
            result.wrong.append(f"the loop was held for {1000 * held:.0f} ms")
    if result.growth_mb > attack.growth_mb:
        result.wrong.append(f"the broker grew by {result.growth_mb:.0f} MB, not {attack.growth_mb}")
    result.wrong += [f"the log has '{wrong}'" for wrong in WRONG_LOG_LINES if wrong in added]
    return result


def run_attack(folder: Path, attack: Attack, count: int, limit_seconds: float) -> Result:
    """The whole course: an attack, one in which SIGTERM comes, and one in which the broker is killed.

    After each of the last two it starts again, and everything acknowledged has to be there.
    """
    target = Target(folder, PATIENCE_SECONDS)
    target.start()
    try:
        result = attack_once(target, attack, count, limit_seconds)
        _measure_what_is_kept(target, result)
        with _again(target, attack, count, result.seconds / 2):
            result.stop_seconds = target.stop(STOP_SECONDS)
            if result.stop_seconds is None:
                result.wrong.append("SIGTERM was ignored")
                target.kill()
        target.start()
        with _again(target, attack, count, result.seconds / 2):
            target.kill()
        target.start()
        target.stop(STOP_SECONDS)
    finally:
        target.kill()
        target.close_all()
    return result


def _measure_what_is_kept(target: Target, result: Result) -> None:
    """What memory is left to the broker when the clients have gone."""
    before = target.peak_bytes / 2**20 - result.growth_mb
    time.sleep(LEAVE_SECONDS)
    result.kept_mb = target.process.resident_bytes / 2**20 - before


@contextmanager
def _again(target: Target, attack: Attack, count: int, seconds: float) -> Iterator[None]:
    """Lets an attack run for some time, and then go on until the broker has ended."""

    def run() -> None:
        with suppress(
            OSError, AssertionError, IndexError, struct.error
        ):  # the broker ends meanwhile
            attack.run(target, count)

    attacking = threading.Thread(target=run, daemon=True)
    attacking.start()
    attacking.join(min(5.0, max(0.2, seconds)))
    yield
    target.close_all()
    attacking.join(target.patience_seconds)
    target.close_all()


HEADINGS = (
    "| attack | how much | loop held | probe waited | memory grew | kept | SIGTERM | the broker's answer | Kafka |",
    "|---|---|---|---|---|---|---|---|---|",
)


def row(result: Result) -> str:
    held = "no answer" if result.held_ms is None else f"{result.held_ms:.0f} ms"
    stop = "ignored" if result.stop_seconds is None else f"{result.stop_seconds:.1f} s"
    return (
        f"| {result.name} | {result.count:,} | {held} | {result.probe_ms:.0f} ms "
        f"| {result.growth_mb:.0f} MB | {result.kept_mb:.0f} MB | {stop} | {result.outcome} "
        f"| {ATTACKS[result.name].kafka} |"
    )


def run_attacks(folder: Path, names: Iterable[str], divisor: int = 1) -> list[Result]:
    """Runs attacks one after the other, and prints a table as it goes."""
    for line in HEADINGS:
        print(line, flush=True)
    results = []
    for name in names:
        attack = ATTACKS[name]
        (folder / name).mkdir(parents=True)
        count = max(1, attack.full // divisor)
        try:
            result = run_attack(folder / name, attack, count, LIMIT_SECONDS)
        except (AssertionError, OSError) as error:
            result = Result(name, count, wrong=[f"{type(error).__name__}: {error}"])
        results.append(result)
        print(row(result), flush=True)
    return results


def run_hostile(folder: Path, names: Iterable[str] = tuple(ATTACKS), divisor: int = 1) -> str:
    """As `run_attacks`; AssertionError with what is wrong."""
    results = run_attacks(folder, names, divisor)
    wrong = [f"{result.name}: {', '.join(result.wrong)}" for result in results if result.wrong]
    assert not wrong, "; ".join(wrong)
    longest = max(result.held_ms or 0.0 for result in results)
    return f"{len(results)} attacks, the loop was held for at most {longest:.0f} ms"
