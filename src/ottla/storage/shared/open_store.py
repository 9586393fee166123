"""Opening the shared engine."""

from __future__ import annotations

from collections.abc import Callable

from ottla.ports import Clock
from ottla.storage.shared.boot_clock import boot_seconds
from ottla.storage.shared.engine_metrics import EngineMetrics
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.session import Session
from ottla.storage.shared.store import SharedStore


async def open_shared_store(
    sequencer: Sequencer,
    objects: Objects,
    broker: BrokerDescription,
    clock: Clock,
    *,
    options: SharedOptions | None = None,
    boot_clock: Callable[[], float] = boot_seconds,
) -> SharedStore:
    """Begins a session and loads what it has to know. The store closes sequencer and objects when it is closed.

    InUseError if another live broker has the name or the node id.
    """
    options = options or SharedOptions()
    metrics = EngineMetrics()
    registered_at = boot_clock()
    registration = await sequencer.register(broker)
    session = Session(sequencer, broker, registration, registered_at, options, metrics, boot_clock)
    state = await sequencer.load_catalog()
    store = SharedStore(sequencer, objects, session, state, clock, options, metrics)
    await store.holders.catch_up()
    await session.beat()
    session.start()
    return store
