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
        await broker.start_all()
    except BaseException:
        if broker is not None:
            await broker.stop_listening()
        store.close()
        raise
    return broker
