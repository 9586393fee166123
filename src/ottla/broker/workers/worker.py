"""A worker: a broker of one node, whose store is its own, and whose catalog and peers are behind its channel."""

from __future__ import annotations

import ctypes
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ottla.broker.clock import SystemClock, SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.peer_links.accepted_links import PEERS
from ottla.broker.peer_links.network_peers import NetworkPeers
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker
from ottla.broker.workers.messages import CatalogCopy, Started
from ottla.broker.workers.worker_catalog import WorkerCatalog
from ottla.broker.workers.worker_channel import WorkerChannel
from ottla.config.broker import BrokerConfig
from ottla.storage.local import LocalStoreOptions
from ottla.storage.local.store import open_worker_store

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent() -> None:
    """Has the system kill this process when the thread that started it has ended, where the system can do that."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def start_worker(
    channel: WorkerChannel, started: Started, descriptors: Sequence[int], copy: CatalogCopy
) -> RunningBroker:
    """Opens the worker's store and serves its clients."""
    lock_descriptor, *listening = descriptors
    inherited: dict[str, list[socket.socket]] = {}
    for name, descriptor in zip(started.listeners, listening, strict=True):
        inherited.setdefault(name, []).append(socket.socket(fileno=descriptor))
    config = BrokerConfig.read(started.options)
    settings = BrokerSettings(config, data_dir=started.data_dir, has_own_process=True)
    clock = SystemClock()
    store = open_worker_store(
        started.data_dir,
        started.worker,
        lock_descriptor=lock_descriptor,
        catalog=WorkerCatalog(channel, copy),
        clock=clock,
        options=LocalStoreOptions(
            node_id=config.node_id,
            checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        ),
    )
    broker = None
    try:
        cluster = Cluster(store, clock, SystemIds())
        broker = RunningBroker(settings, cluster, Instruments(clock=clock), inherited=inherited)
        _link_nodes(config.node_id, broker, channel)
        await broker.start_all()
    except BaseException:
        if broker is not None:
            await broker.stop_listening()
        store.close()
        raise
    return broker


def _link_nodes(own_id: int, broker: RunningBroker, channel: WorkerChannel) -> None:
    """The other workers are reached over sockets that the supervisor hands over, and reach this one likewise."""
    cluster = broker.cluster

    async def connect(node_id: int) -> socket.socket:
        return await channel.connect(node_id, PEERS)

    def accept(node_id: int, accepted: socket.socket) -> None:
        broker.server.links.accept(node_id, accepted)

    peers = NetworkPeers(own_id, cluster.peers, connect)
    cluster.peers = peers
    channel.on_accept(PEERS, accept)
    # All workers stop together: none needs to be told of the others' end.
    channel.stopping.add_done_callback(lambda _: peers.close())
