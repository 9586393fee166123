"""Nodes that have a store and a cluster object each, as processes have; one event loop runs all of them."""

from __future__ import annotations

import random
from typing import Any, cast

from tests.broker.separate_nodes.shared_catalog import CatalogCopy, SharedCatalog
from tests.storage.batches import SteppingClock

from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.members import BrokerRegistration
from ottla.broker.node import Node
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.local_peers import HERE, LocalPeers
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.caller import Caller
from ottla.config.broker import BrokerConfig
from ottla.core.leadership import Owners
from ottla.model import Endpoint
from ottla.ports.futures import settled
from ottla.storage.memory import MemoryStore
from ottla.wire.declare import info_of

LISTENER = "PLAINTEXT"


class ProcessStore(MemoryStore):
    """The store of one process; `reopen` is what a crash and a start make of it."""

    def __init__(self, clock: SteppingClock, catalog: CatalogCopy) -> None:
        super().__init__(clock=clock)
        self._cluster_id = "a" * 22
        self._catalog = cast(Any, catalog)

    def reopen(self, catalog: CatalogCopy) -> None:
        for log in self._logs.values():
            log.fence()
        self._logs.clear()
        self._epoch += 1
        self._catalog = cast(Any, catalog)


class Process:
    """One node and all that it has."""

    def __init__(self, nodes: SeparateNodes, node_id: int, store: ProcessStore) -> None:
        self.catalog_copy = cast(CatalogCopy, store.catalog)
        self.store = store
        self.cluster = Cluster(store, nodes.clock, SystemIds(), Owners(nodes.node_ids))
        self.cluster.deletion.finish_at_once()
        self.cluster.peers = LocalPeers(nodes.find, SERVED)
        assert self.cluster.leader_epochs is not None
        self.epochs = self.cluster.leader_epochs
        self.epochs.tell = lambda told: nodes.tell_epochs()
        self.node = Node(self.cluster, BrokerConfig.read({**nodes.options, "node.id": node_id}))
        self.node.endpoints[LISTENER] = Endpoint("0.0.0.0", 9000 + node_id)
        self.cluster.join(self.node)

    def call(self, request: Any, version: int | None = None) -> Any:
        """The reply of the node's handler to a client."""
        api = SERVED[info_of(type(request)).api_key]
        caller = Caller(Endpoint("10.0.0.1", 5000), Endpoint("broker", 9092), LISTENER)
        context = RequestContext(api.last_version if version is None else version, "client", caller)
        return api.handle(self.node, request, context)


class SeparateNodes:
    """All processes, and what whoever runs them does for them."""

    def __init__(self, seed: int, count: int = 3, **options: object) -> None:
        self.rng = random.Random(seed)
        self.shared = SharedCatalog(self.rng)
        self.clock = SteppingClock()
        self.node_ids = range(1, count + 1)
        self.options = {
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.num.partitions": 3,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **options,
        }
        self.stores: dict[int, ProcessStore] = {}
        self.running: dict[int, Process] = {}

    async def start(self) -> SeparateNodes:
        for node_id in self.node_ids:
            self.begin(node_id)
        await self.shared.settle(
            *(settled(each.cluster.producer_ids.reserve()) for each in self.running.values())
        )
        return self

    def begin(self, node_id: int) -> Process:
        """A process starts, with what its store has."""
        catalog = self.shared.copy()
        store = self.stores.get(node_id)
        if store is None:
            store = self.stores[node_id] = ProcessStore(self.clock, catalog)
        else:
            store.reopen(catalog)
        process = self.running[node_id] = Process(self, node_id, store)
        self.register()
        self.tell_epochs()
        return process

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        self.shared.remove(process.catalog_copy)
        process.catalog_copy.follow(lambda revision, changes: None)
        process.cluster.lose_node(node_id)
        self.register()

    def register(self) -> None:
        """Tells every process which nodes there are."""
        registrations = [
            BrokerRegistration(
                node_id,
                {LISTENER: Endpoint("0.0.0.0", 9000 + node_id)},
                {},
                node_id in self.running,
            )
            for node_id in self.node_ids
        ]
        for process in self.running.values():
            process.cluster.members.register(registrations)

    def tell_epochs(self) -> None:
        for teller in self.running.items():
            for node_id, process in self.running.items():
                if node_id != teller[0]:
                    process.epochs.told(teller[0], teller[1].epochs.own)

    def find(self, node_id: int) -> Node | None:
        process = self.running.get(node_id)
        return None if process is None else process.node

    def __getitem__(self, node_id: int) -> Process:
        return self.running[node_id]

    async def answers(self, *replies: Any) -> list[Any]:
        """The answers to requests that were made at the same time."""
        return await self.shared.settle(*replies)

    async def answer(self, reply: Any) -> Any:
        (found,) = await self.shared.settle(reply)
        return found

    async def tick(self) -> None:
        """What servers do every second."""
        for process in list(self.running.values()):
            await self.answer(process.cluster.deletion.finish())
        await self.shared.settle()


__all__ = ["HERE", "LISTENER", "Process", "SeparateNodes"]
