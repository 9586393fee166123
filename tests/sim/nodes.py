"""The nodes of a simulated cluster over one storage engine: they start, crash, and lose what they lead."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from tests.sim.disk import FaultyStore
from tests.sim.loop import OWNER, NodeDiedError, Owner, VirtualLoop
from tests.sim.network import NOBODY, Network, endpoint_of
from tests.sim.peers import SimulatedPeers
from tests.sim.trace import Trace

from ottla.broker.cluster import Cluster
from ottla.broker.node import Node
from ottla.broker.partitions.compactor import Compactor
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.local_peers import LocalPeers
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import DEFAULT_LISTENER
from ottla.errors import ErrorCode
from ottla.model import topic_id_text
from ottla.ports import PartitionRef

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_MS: Final = 1_800_000_000_000
TICK_SECONDS: Final = 1.0
MAX_SKEW_MS: Final = 3_600_000


class VirtualClock:
    """Implements Clock with the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.skew_ms = 0

    def now_ms(self) -> int:
        # A timer for a whole number of milliseconds must not find the clock just before it.
        return EPOCH_MS + self.skew_ms + int(self._loop.time() * 1000 + 1e-6)

    def monotonic_seconds(self) -> float:
        return self._loop.time() + 1e-9


class SeededIds:
    """Implements Ids with a seeded generator."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def any_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._rng.getrandbits(128), version=4)

    def topic_id(self) -> uuid.UUID:
        while True:
            made = self.any_id()
            if made.bytes[0] >> 2 != 0b111110:
                return made

    def member_id(self) -> uuid.UUID:
        return self.any_id()

    def session_id(self) -> int:
        return self._rng.randint(1, 0x7FFFFFFF)


def at_home(owner: Owner, call: Callable[P, T]) -> Callable[P, T]:
    """The same in the context of its owner, whoever calls."""

    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        if OWNER.get() is owner:
            return call(*args, **kwargs)
        return owner.context.copy().run(call, *args, **kwargs)

    return inside


def visited(owner: Owner, call: Callable[P, list[Any]]) -> Callable[P, list[Any]]:
    """As `at_home`; if the owner dies of it, somebody else who called goes on with an error for an answer."""
    inside = at_home(owner, call)

    def outside(*args: P.args, **kwargs: P.kwargs) -> list[Any]:
        if OWNER.get() is owner:
            return call(*args, **kwargs)
        try:
            return inside(*args, **kwargs)
        except NodeDiedError:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    return outside


class Nodes:
    """Every node of the cluster, running or not."""

    def __init__(
        self,
        loop: VirtualLoop,
        rng: random.Random,
        trace: Trace,
        network: Network,
        configs: dict[int, BrokerConfig],
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.network = network
        self.configs = configs
        self.clock = VirtualClock(loop)
        self.ids = SeededIds(rng)
        self.store = FaultyStore(loop, self.clock, rng, trace, topic_id_text(self.ids.any_id()))
        self.store.claimant = self._leader
        self.cluster = self._make_cluster()
        self.running: dict[int, Node] = {}
        self.max_skew_ms = MAX_SKEW_MS
        self._owners: dict[int, Owner] = {}

    def _leader(self, ref: PartitionRef) -> Owner | None:
        topic = self.cluster.catalog.topics_by_id[ref.topic_id]
        return self._owners.get(self.cluster.leader_of(topic, ref.partition))

    def _make_cluster(self) -> Cluster:
        cluster = Cluster(self.store, self.clock, self.ids)
        local = LocalPeers(lambda node_id: self.running.get(node_id), SERVED)
        cluster.peers = SimulatedPeers(local, self.network, self.rng)
        # What the cluster has begun goes on when the node dies that asked for it.
        share = cluster.share
        share._serve_soon = at_home(NOBODY, share._serve_soon)  # type: ignore[method-assign]
        # Nodes have their own; one that dies must not keep the others from it.
        share.elsewhere = asyncio.to_thread  # type: ignore[method-assign,assignment]
        share._end_of_new_work = at_home(NOBODY, share._end_of_new_work)  # type: ignore[method-assign]
        forget = at_home(NOBODY, cluster.deletion._forget_offsets)
        cluster.deletion._forget_offsets = forget  # type: ignore[method-assign]
        cluster.deletion.finish_at_once()
        return cluster

    def start_all(self) -> None:
        """Starts every node; all join before any is asked something, so that each leads its share."""
        made = [self._make(node_id) for node_id in self.configs]
        for node in made:
            self._join(node)

    def start(self, node_id: int) -> None:
        """Starts a node that does not run, with nothing but what is stored."""
        if not self.running:
            # Whoever comes first after all were down knows only what the catalog has.
            self.cluster = self._make_cluster()
        self._join(self._make(node_id))

    def _make(self, node_id: int) -> Node:
        owner = self._owners[node_id] = Owner(f"node {node_id}")
        self.trace.note("{} starts", str(owner))
        node = Node(self.cluster, self.configs[node_id])
        # Others reach these as if they were in the same process; what comes of it belongs to this node.
        node.groups.load_all = visited(owner, node.groups.load_all)  # type: ignore[method-assign]
        node.groups.ask_all = visited(owner, node.groups.ask_all)  # type: ignore[method-assign]
        node.partitions._opener.open = at_home(owner, node.partitions._opener.open)  # type: ignore[method-assign]
        node.advertised = {DEFAULT_LISTENER: endpoint_of(node_id)}
        node.uptime.watch()
        return node

    def _join(self, node: Node) -> None:
        owner = self._owners[node.node_id]
        self.cluster.join(node)
        node.partitions.find_offline()
        self.running[node.node_id] = node
        self.network.attach(node, owner)
        self.loop.create_task(self._tick(node), context=owner.context)
        self.loop.create_task(node.patterns.run(), context=owner.context)
        if node.options.config.log_cleaner_enable:
            self.loop.create_task(Compactor(node).run(), context=owner.context)

    async def _tick(self, node: Node) -> None:
        """What a server does every now and then."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.cluster.controller_id == node.node_id:
                await self.cluster.deletion.finish()
            node.tick()

    def crash(self, node_id: int) -> None:
        """Ends a node without a word: nothing is saved, nobody is told."""
        self.trace.note("node {} crashes", node_id)
        owner = self._owners.pop(node_id)
        owner.is_alive = False
        del self.running[node_id]
        self.store.crash(owner)
        self.network.detach(node_id)
        self.cluster.lose_node(node_id)

    def node_of(self, owner: Owner) -> int | None:
        """Which node this is, if it runs."""
        for node_id, known in self._owners.items():
            if known is owner and owner.is_alive:
                return node_id
        return None

    def freeze(self, node_id: int, seconds: float) -> None:
        """Stops a node for a while, as a suspended process is stopped; nobody else notices."""
        self.trace.note("node {} stands still for {} s", node_id, round(seconds, 1))
        self._owners[node_id].freeze_until(self.loop.time() + seconds)

    def set_clock(self, skew_ms: int) -> None:
        """Has the wall clock jump, as when somebody sets it."""
        self.trace.note("the clock is set: {} ms", skew_ms)
        self.clock.skew_ms = skew_ms

    def is_frozen(self, node_id: int) -> bool:
        return self._owners[node_id].frozen_until > self.loop.time()

    def seconds_frozen(self) -> float:
        """How long it takes until no node stands still any more."""
        until = max((owner.frozen_until for owner in self._owners.values()), default=0.0)
        return max(0.0, until - self.loop.time())

    def move(self, topic: str, partition: int, node_id: int) -> None:
        """Makes a running node lead a partition."""
        self.trace.note("{}-{} moves to node {}", topic, partition, node_id)
        self.cluster.move_leader(topic, partition, node_id)


async def trouble(
    nodes: Nodes,
    rng: random.Random,
    seconds: float,
    topics: Sequence[str],
    longest_peace_seconds: float = 6.0,
) -> None:
    """Has nodes crash, restart, stand still and move their partitions for a while."""
    end = nodes.loop.time() + seconds
    while nodes.loop.time() < end:
        await asyncio.sleep(rng.uniform(0.2, longest_peace_seconds))
        down = [node_id for node_id in nodes.configs if node_id not in nodes.running]
        drawn = rng.random()
        if down and drawn < 0.4:
            nodes.start(rng.choice(down))
        elif nodes.running and drawn < 0.6:
            nodes.crash(rng.choice(list(nodes.running)))
        elif drawn < 0.63:
            for node_id in list(nodes.running):
                nodes.crash(node_id)
        elif drawn < 0.66:
            nodes.set_clock(rng.randint(-nodes.max_skew_ms, nodes.max_skew_ms))
        elif nodes.running and drawn < 0.73:
            nodes.freeze(rng.choice(list(nodes.running)), rng.uniform(0.5, 15))
        elif nodes.running:
            topic = nodes.cluster.catalog.topics.get(rng.choice(topics))
            if topic is not None:
                partition = rng.randrange(topic.partition_count)
                nodes.move(topic.name, partition, rng.choice(list(nodes.running)))
