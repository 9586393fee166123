"""The end of a broker on shared storage: its partitions go to others, and whatever fails, everything is closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.broker.requests import on_loop, running, session_with
from tests.broker.shared_store.fake_storage_broker import (
    RUNNING,
    FakeStorageBroker,
    create_opened,
)
from tests.lasting import LASTING
from tests.storage.shared.engine.brokers import QUICK, Seam

from ottla.broker.runtime import BrokerSettings
from ottla.broker.shared import shared_broker
from ottla.broker.shared.shared_broker import SharedBroker, start_shared_broker
from ottla.broker.workers.worker_sockets import BoundListeners
from ottla.config.broker import BrokerConfig
from ottla.ports import Clock
from ottla.storage.shared.errors import SequencerUnavailableError
from ottla.storage.shared.objects.memory import MemoryObjects
from ottla.storage.shared.open_store import open_shared_store
from ottla.storage.shared.sequencer.memory import MemorySequencer, MemorySequencerState
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.store import SharedStore

IMPATIENT = replace(QUICK, claim_budget_seconds=0.01, write_budget_seconds=0.01)


@pytest.fixture
def unstable() -> Iterator[tuple[FakeStorageBroker, Seam]]:
    """A broker with partitions, whose sequencer can go away; the test stops the broker."""
    broker, seam = FakeStorageBroker(LASTING), Seam()
    broker.options, broker.seam = IMPATIENT, seam
    broker.start()
    with session_with(broker) as connection:
        create_opened(connection, "orders", 3)
    yield broker, seam
    if broker in RUNNING:
        broker.stop()


def of_event(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if getattr(each, "event", "") == event]


def held_count(found: SharedBroker) -> int:
    leaders = found._leaders
    topics = found.cluster.catalog.topics.values()
    own_id = leaders.leases.node_id
    return sum(
        leaders.leader_of(topic, number) == own_id
        for topic in topics
        for number in range(topic.partition_count)
    )


def shared(broker: FakeStorageBroker) -> SharedBroker:
    found = running(broker)
    assert isinstance(found, SharedBroker)
    return found


def test_a_stop_tells_once_how_many_partitions_it_has_released(
    unstable: tuple[FakeStorageBroker, Seam], caplog: pytest.LogCaptureFixture
) -> None:
    broker, _ = unstable
    found = shared(broker)
    count = on_loop(broker, lambda _: held_count(found))
    with caplog.at_level(logging.INFO):
        broker.stop()
    assert of_event(caplog, "partitions_released") == [f"{count} partition(s) are released"]


def test_a_stop_without_the_sequencer_closes_everything(
    unstable: tuple[FakeStorageBroker, Seam], caplog: pytest.LogCaptureFixture
) -> None:
    broker, seam = unstable
    found = shared(broker)
    seam.is_down = True
    with caplog.at_level(logging.INFO):
        broker.stop()
    assert len(of_event(caplog, "leases_not_kept")) == 1
    assert not of_event(caplog, "partitions_released")
    assert found._peers._is_closed
    store = found._store
    assert isinstance(store, SharedStore)
    assert store._closing is not None
    assert store._closing.done()


def test_what_failed_first_is_why_a_start_has_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[object] = []

    class Bound(BoundListeners):
        def close(self) -> None:
            closed.append(self)
            super().close()

    monkeypatch.setattr(shared_broker, "BoundListeners", Bound)
    seam = Seam()
    seam.lost_before["describe_broker"] = 1

    async def open_store(name: str, node_id: int | None, clock: Clock) -> SharedStore:
        state = MemorySequencerState(clock=clock, cluster_id="S" * 22)
        broker = BrokerDescription(name, node_id, {}, {}, "", None)
        store = await open_shared_store(
            MemorySequencer(state, seam), MemoryObjects(), broker, clock, options=IMPATIENT
        )
        close = store.close

        async def close_and_fail() -> None:
            await close()
            raise RuntimeError("the close fails as well")

        monkeypatch.setattr(store, "close", lambda: asyncio.ensure_future(close_and_fail()))
        return store

    config = BrokerConfig.read({"listeners": "PLAINTEXT://127.0.0.1:0"})
    with pytest.raises(SequencerUnavailableError, match="describe_broker"):
        asyncio.run(start_shared_broker(BrokerSettings(config=config), open_store))
    assert len(closed) == 1
    assert len(of_event(caplog, "work_failed")) == 1
