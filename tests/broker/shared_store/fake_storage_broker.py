"""A broker on shared storage whose sequencer and objects are in this process."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any, Self

import pytest
from tests.broker.requests import create, eventually, on_loop

import ottla
from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.partitions.shard import Shard
from ottla.broker.runtime import BrokerSettings, RunningBroker
from ottla.broker.shared.shared_broker import start_shared_broker
from ottla.client.raw import RawConnection
from ottla.ports import Clock
from ottla.storage.shared.objects.memory import MemoryObjects
from ottla.storage.shared.open_store import open_shared_store
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.memory import CallSeam, MemorySequencer, MemorySequencerState
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.store import SharedStore

RUNNING: set[FakeStorageBroker] = set()


class FakeStorageBroker(ottla.Broker):
    """One broker of a cluster of its own; it starts when its coordinators are loaded."""

    seam: CallSeam | None = None
    options = SharedOptions()

    def start(self) -> Self:
        if self._settings.nodes > 1:
            pytest.skip("the nodes of the test are in one cluster object")
        super().start()
        RUNNING.add(self)
        assert eventually(lambda: on_loop(self, _are_coordinators_loaded))
        return self

    def stop(self) -> None:
        RUNNING.discard(self)
        super().stop()

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        objects = MemoryObjects()

        async def open_store(name: str, node_id: int | None, clock: Clock) -> SharedStore:
            state = MemorySequencerState(clock=clock, cluster_id="S" * 22)
            broker = BrokerDescription(name, node_id, {}, {}, "", None)
            sequencer = MemorySequencer(state, self.seam)
            return await open_shared_store(sequencer, objects, broker, clock, options=self.options)

        return start_shared_broker(settings, open_store)


def _are_coordinators_loaded(running: RunningBroker) -> bool:
    return all(
        isinstance(found, Coordinator) and found.is_loaded
        for server in running.servers.values()
        for kind in (server.node.groups, server.node.transactions)
        for found in kind.load_all()
    )


def create_opened(
    connection: RawConnection,
    name: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> uuid.UUID:
    """Makes a topic, whose partitions are claimed and opened a moment later; clients would ask again meanwhile."""
    topic_id = create(connection, name, partitions, config)

    def are_open(running: RunningBroker) -> bool:
        (server,) = running.servers.values()
        if name not in server.node.cluster.catalog.topics:
            return True  # of another broker
        found = [server.node.partitions.shard(name, number) for number in range(partitions)]
        return all(isinstance(each, Shard) for each in found)

    for broker in list(RUNNING):
        assert eventually(partial(on_loop, broker, are_open))
    return topic_id
