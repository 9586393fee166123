"""Starting and stopping a broker on a running event loop; `ottla serve` and `ottla.Broker` are faces of this."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ottla.broker.clock import SystemClock, SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.node import Node
from ottla.broker.server import Server
from ottla.config.broker import BrokerConfig
from ottla.model import Endpoint
from ottla.ports import Clock, LogStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BrokerSettings:
    """What a broker is started with; `data_dir` None keeps everything in memory."""

    config: BrokerConfig
    listen: Endpoint
    advertise: Endpoint | None = None
    data_dir: str | None = None


def open_store(settings: BrokerSettings, clock: Clock) -> LogStore:
    """The storage engine that the settings ask for."""
    config = settings.config
    if settings.data_dir is None:
        from ottla.storage.memory import MemoryStore

        return MemoryStore(clock=clock, max_bytes=config.ottla_ephemeral_max_bytes)
    from ottla.storage.local import LocalStoreOptions, open_local_store

    options = LocalStoreOptions(
        node_id=config.node_id,
        checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
    )
    return open_local_store(settings.data_dir, clock=clock, options=options)


class RunningBroker:
    """A broker that serves until it is stopped."""

    def __init__(self, cluster: Cluster, node: Node, server: Server) -> None:
        self.cluster = cluster
        self.node = node
        self.server = server

    @property
    def endpoint(self) -> Endpoint:
        """Where clients connect."""
        return self.server.endpoint

    async def stop(self) -> None:
        """Answers what was taken, makes everything durable, and leaves the folder clean."""
        await self.server.stop()
        self.node.close()
        self.cluster.store.close()


async def start_broker(settings: BrokerSettings) -> RunningBroker:
    """Opens the storage and listens."""
    clock = SystemClock()
    store = open_store(settings, clock)
    try:
        cluster = Cluster(store, clock, SystemIds())
        node = Node(cluster, settings.config)
        node.advertised = settings.advertise
        cluster.finish_deletions()
        cluster.adopt_topics()
        node.find_offline()
        server = Server(node, settings.listen)
        await server.start()
    except BaseException:
        store.close()
        raise
    return RunningBroker(cluster, node, server)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, else the standard one."""
    make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ImportError):
        import uvloop

        make = uvloop.new_event_loop
    return make()
