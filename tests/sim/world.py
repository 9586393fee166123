"""A simulated world: a loop, a network, nodes, and everything random in it drawn from one seed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

from tests.sim.disk import FINE
from tests.sim.loop import VirtualLoop
from tests.sim.network import Caller, Network
from tests.sim.nodes import Nodes, VirtualClock
from tests.sim.trace import Trace, described
from tests.sim.weather import CALM

from ottla.broker.crashpoints import CrashPoint
from ottla.config.broker import BrokerConfig


class InvariantError(AssertionError):
    """Something happened that must never happen."""


class World:
    """What a scenario plays in."""

    def __init__(self, seed: int, node_count: int, options: dict[str, object]) -> None:
        self.seed = seed
        self.loop = VirtualLoop()
        self.trace = Trace(self.loop.time)
        self.network = Network(self.loop, self.random("network"), self.trace)
        configs = {
            node_id: BrokerConfig.read({**options, "node.id": node_id})
            for node_id in range(1, node_count + 1)
        }
        # Clients go by a clock of their own, which is never set. That of the brokers differs from it by MAX_SKEW_MS at
        # most, which is how far ahead a timestamp may be (message.timestamp.after.max.ms).
        self.client_clock = VirtualClock(self.loop)
        self.partition_counts: dict[str, int] = {}  # of the topics that clients use
        self.crashes: dict[CrashPoint, int] = {}  # at named places
        self._numbers = 0
        self.nodes = Nodes(self.loop, self.random("nodes"), self.trace, self.network, configs)

    def random(self, name: str) -> random.Random:
        """A generator of its own for each part, so that one that draws more does not change the others."""
        return random.Random(f"{self.seed} {name}")

    def caller(self, name: str) -> Caller:
        return Caller(self.network, name, self.random(name))

    def next_number(self) -> int:
        """A number that nobody else gets."""
        self._numbers += 1
        return self._numbers

    def check(self, condition: bool, text: str, *values: Any) -> None:
        if not condition:
            self.trace.note("WRONG: " + text, *values)
            error = InvariantError(text.format(*map(described, values)))
            self.loop.abort(error)
            raise error

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs something beside the scenario; if it fails, everything does."""

        def look(done: asyncio.Task[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, Exception):
                self.loop.abort(error)

        task: asyncio.Task[None] = self.loop.create_task(coroutine)
        task.add_done_callback(look)
        return task

    def calm_down(self) -> None:
        """From now on nothing goes wrong any more."""
        self.trace.note("everything is well from here on")
        self.network.weather = CALM
        self.nodes.store.weather = FINE
        for node_id in self.nodes.configs:
            if node_id not in self.nodes.running:
                self.nodes.start(node_id)


class _BugHandler(logging.Handler):
    """Collects what the broker itself takes for a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


def play(world: World, scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario to its end; whatever went wrong on the way is an InvariantError."""
    logger = logging.getLogger("ottla")
    bugs = _BugHandler()
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(bugs)
    try:
        world.loop.run_until_complete(scenario(world))
        world.check(not world.loop.failures, "a callback failed: {}", world.loop.failures)
        world.check(not bugs.found, "the broker says that it has a bug: {}", bugs.found)
    finally:
        logger.removeHandler(bugs)
        logger.setLevel(level)
        logger.propagate = propagate
        world.loop.close()


async def every(seconds: float, check: Callable[[], None]) -> None:
    """Looks again and again."""
    while True:
        await asyncio.sleep(seconds)
        check()
