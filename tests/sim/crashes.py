"""Nodes that die at the named places of `ottla.broker.crashpoints`: nothing behind the place runs any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.sim.loop import OWNER, NodeDiedError
from tests.sim.network import NOBODY
from tests.sim.world import World

from ottla.broker import crashpoints
from ottla.broker.crashpoints import CrashPoint

POINTS = list(CrashPoint)
MAX_CRASHES = 4
# How often a node passes the place that a seed is about before it dies there, at most.
MAX_PASSED = 4
MAX_AWAY_SECONDS = 2.0
MAX_HELD_SECONDS = 2.5
LAST_WORDS = 20


class Crashes:
    """Listens at the places; every seed has one at which nodes die most."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.random("crashes")
        self.favourite = POINTS[world.seed % len(POINTS)]
        self.elsewhere = self.rng.choice([0.0, 0.002, 0.01])
        self.is_active = False
        self._left = MAX_CRASHES
        self._passes = self.rng.randint(1, MAX_PASSED)

    def reach(self, point: CrashPoint) -> None:
        owner = OWNER.get()
        nodes = self.world.nodes
        node_id = None if owner is None else nodes.node_of(owner)
        if not self.is_active or node_id is None or not self._is_due(point):
            return
        self._left -= 1
        self.world.trace.note("node {} is {}", node_id, point.value)
        self.world.crashes[point] = self.world.crashes.get(point, 0) + 1
        nodes.crash(node_id)
        if point is CrashPoint.AFTER_MARKERS_SENT:
            self._hold_back(f"node-{node_id}")
        away_seconds = self.rng.uniform(0.05, MAX_AWAY_SECONDS)
        loop = self.world.loop
        loop.call_later(away_seconds, self._restart, node_id, context=NOBODY.context)
        raise NodeDiedError(point.value)

    def _hold_back(self, sender: str) -> None:
        """What the dead node has sent arrives when another one has sent it again."""
        network, now = self.world.network, self.world.loop.time()
        for exchange in network.exchanges[-LAST_WORDS:]:
            if exchange.client == sender and exchange.arrived_at is None:
                exchange.held_until = now + self.rng.uniform(0.3, MAX_HELD_SECONDS)

    def _restart(self, node_id: int) -> None:
        if node_id not in self.world.nodes.running:
            self.world.nodes.start(node_id)

    def _is_due(self, point: CrashPoint) -> bool:
        if not self._left:
            return False
        if point is not self.favourite:
            return bool(self.elsewhere) and self.rng.random() < self.elsewhere
        self._passes -= 1
        if self._passes:
            return False
        self._passes = self.rng.randint(1, MAX_PASSED)
        return True


@contextmanager
def listening(crashes: Crashes) -> Iterator[None]:
    """Has nodes die for as long as this lasts."""
    crashpoints.listener = crashes.reach
    try:
        yield
    finally:
        crashpoints.listener = None
