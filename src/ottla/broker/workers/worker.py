"""A worker: a broker of one node, whose store is its own, and whose catalog and peers are behind its channel."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ottla.broker.clock import SystemClock, SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.console.broker_console import user_login_of
from ottla.broker.internals.event_ring import detach_all
from ottla.broker.members import BrokerRegistration
from ottla.broker.network.in_process import CONSOLE, IN_PROCESS, InProcessKind, console_users
from ottla.broker.peer_links.accepted_links import PEERS
from ottla.broker.peer_links.network_peers import NetworkPeers
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, event_ring
from ottla.broker.workers.messages import PAGES, CatalogCopy, Started
from ottla.broker.workers.worker_catalog import WorkerCatalog
from ottla.broker.workers.worker_channel import WorkerChannel
from ottla.config.broker import BrokerConfig
from ottla.core.leadership import Owners
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
    settings = BrokerSettings(
        config,
        data_dir=started.data_dir,
        has_own_process=True,
        tells_pages=started.tells_pages,
        has_metrics_page=started.has_metrics_page,
    )
    detach_all()  # the supervisor's, where this is a fork of it
    ring = event_ring(settings)
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
        cluster = Cluster(store, clock, SystemIds(), Owners(channel.members))
        cluster.deletion.finish_at_once()
        broker = RunningBroker(
            settings, cluster, Instruments(clock=clock), ring, inherited=inherited
        )
        peers = _link_nodes(config.node_id, broker, channel)
        _follow_others(config.node_id, cluster, peers, channel)
        if started.tells_pages:
            _tell_pages(broker, channel)
        broker.before_requests = channel.catch_up
        channel.about_to_serve()
        # Its first commit, of producer ids, comes before its first client.
        await broker.start_all()
        _serve_beside(broker, channel)
    except BaseException:
        if broker is not None:
            await broker.stop_listening()
        store.close()
        raise
    return broker


def _serve_beside(broker: RunningBroker, channel: WorkerChannel) -> None:
    """Serves clients beside the workers, whose connections the supervisor hands over: the registry and the console."""
    server, config = broker.server, broker.node.options.config
    known = channel.members[config.node_id].advertised
    kinds = [IN_PROCESS, CONSOLE]
    login = user_login_of(config)
    if login is not None:
        kinds.append(console_users(login.listener))
    for kind in kinds:
        if kind.name in known:
            server.serve_in_process(kind)
            broker.node.advertised[kind.name] = known[kind.name]

            def accept(_: int, accepted: socket.socket, kind: InProcessKind = kind) -> None:
                server.accept_in_process(kind, accepted)

            channel.on_accept(kind.name, accept)


def _tell_pages(broker: RunningBroker, channel: WorkerChannel) -> None:
    """The supervisor gets the metrics and the internals of this worker."""
    telling: set[asyncio.Task[None]] = set()

    def accept(_: int, accepted: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(broker.tell_pages(accepted))
        telling.add(task)
        task.add_done_callback(telling.discard)

    channel.on_accept(PAGES, accept)


def _follow_others(
    own_id: int, cluster: Cluster, peers: NetworkPeers, channel: WorkerChannel
) -> None:
    """Lets the cluster know the other workers and the epochs of their partitions, and them its own."""
    epochs = cluster.leader_epochs
    assert epochs is not None

    def register() -> None:
        cluster.members.register(
            BrokerRegistration(each.node_id, each.endpoints, each.advertised, each.is_live)
            for each in channel.members.values()
            if each.node_id != own_id
        )
        for each in channel.members.values():
            if each.is_live:
                peers.try_again(each.node_id)

    def note_epochs(other: int) -> None:
        epochs.told(other, channel.epochs[other])

    register()
    channel.members_changed = register
    for other in channel.epochs:
        note_epochs(other)
    channel.epochs_changed = note_epochs
    epochs.tell = channel.send_epochs
    channel.send_epochs(epochs.own)


def _link_nodes(own_id: int, broker: RunningBroker, channel: WorkerChannel) -> NetworkPeers:
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
    return peers
