"""Runs scenarios by their seeds.

python -m tests.sim.run producers --seed 4711            once, with everything that happened
python -m tests.sim.run producers --seed 0 --count 1000  many, telling of those that fail
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from tests.sim.consumer_groups import consumer_options, consuming
from tests.sim.deletions import deleting
from tests.sim.groups import group_options, grouping
from tests.sim.producers import producing
from tests.sim.transactions import transacting, txn_options
from tests.sim.world import World, play

from ottla.broker.crashpoints import CrashPoint

MAX_FAILURES = 20
# From so many on nodes have died at every place.
ENOUGH_SEEDS = 250


class Scenario(NamedTuple):
    """Something that can be played with any seed."""

    play: Callable[[World], Coroutine[Any, Any, None]]
    node_count: int
    options: Callable[[random.Random], dict[str, object]]
    places: tuple[CrashPoint, ...] = ()  # at which nodes die


SCENARIOS = {
    "producers": Scenario(producing, 3, lambda rng: {}),
    "groups": Scenario(grouping, 3, group_options),
    "consumer_groups": Scenario(consuming, 3, consumer_options),
    "transactions": Scenario(transacting, 3, txn_options, tuple(CrashPoint)),
    "deletions": Scenario(deleting, 3, lambda rng: {"offsets.topic.num.partitions": 3}),
}


class SeedFailedError(AssertionError):
    """Names the command that repeats a failure."""


def make_world(name: str, seed: int) -> World:
    scenario = SCENARIOS[name]
    options = scenario.options(random.Random(f"{seed} options"))
    return World(seed, scenario.node_count, options)


def play_seed(name: str, seed: int) -> World:
    """Plays a scenario once; a failure says how to see it again."""
    world = make_world(name, seed)
    try:
        play(world, SCENARIOS[name].play)
    except Exception as error:
        raise SeedFailedError(f"{error!r}; repeat it: {command(name, seed)}") from error
    return world


def command(name: str, seed: int) -> str:
    return f"python -m tests.sim.run {name} --seed {seed}"


class Played(NamedTuple):
    """What it took to play many, and how often nodes died at which named place."""

    steps: int
    crashes: dict[CrashPoint, int]

    def check(self, name: str) -> None:
        """A scenario in which nodes die at named places leaves none of them out."""
        missing = missing_places(name, self.crashes)
        assert not missing, f"in {name} no node ever died at {', '.join(missing)}"


def missing_places(name: str, crashes: Mapping[CrashPoint, int]) -> list[str]:
    return [point.name for point in SCENARIOS[name].places if not crashes.get(point)]


def play_seeds(name: str, seeds: Iterable[int]) -> Played:
    """Plays many."""
    steps, crashes = 0, dict.fromkeys(SCENARIOS[name].places, 0)
    for seed in seeds:
        world = play_seed(name, seed)
        steps += world.loop.steps
        for point, count in world.crashes.items():
            crashes[point] += count
    return Played(steps, crashes)


def _show(name: str, seed: int) -> int:
    world = make_world(name, seed)
    try:
        play(world, SCENARIOS[name].play)
    except Exception as error:
        print("\n".join(world.trace.lines()))
        traceback.print_exception(error)
        print(f"FAILED: {error!r}")
        return 1
    print("\n".join(world.trace.lines()))
    print(f"passed; digest {world.trace.digest()}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays simulated scenarios.")
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=1)
    given = parser.parse_args()
    if given.count == 1:
        return _show(given.scenario, given.seed)
    failed, began = 0, time.monotonic()
    crashes: dict[CrashPoint, int] = {}
    for seed in range(given.seed, given.seed + given.count):
        try:
            for point, count in play_seed(given.scenario, seed).crashes.items():
                crashes[point] = crashes.get(point, 0) + count
        except SeedFailedError as error:
            failed += 1
            print(error, flush=True)
            if failed == MAX_FAILURES:
                print("and so on")
                break
    for point in SCENARIOS[given.scenario].places:
        print(f"{crashes.get(point, 0):6} nodes died {point.value}")
    print(f"{given.count} seeds, {failed} failed, {time.monotonic() - began:.0f} s")
    missing = missing_places(given.scenario, crashes) if given.count >= ENOUGH_SEEDS else []
    if missing:
        print(f"no node ever died at {', '.join(missing)}")
    return bool(failed or missing)


if __name__ == "__main__":
    sys.exit(main())
