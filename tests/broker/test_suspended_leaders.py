"""A node whose lease has passed: it answers Fetch, and nothing else that only a leader or coordinator may."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from tests.broker import group_requests
from tests.broker.requests import (
    FETCH_VERSION,
    batch_of,
    create,
    delete_records,
    eventually,
    fetch,
    fetch_request,
    fill,
    on_loop,
    produce,
    session_with,
    values_in,
)
from tests.broker.test_list_offsets import LATEST
from tests.broker.test_list_offsets import ask as ask_offset

import ottla
from ottla.broker import runtime
from ottla.broker.cluster import Housekeeping
from ottla.broker.runtime import BrokerSettings, RunningBroker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse

TOPIC = "orders"


class Lease:
    def __init__(self) -> None:
        self.lasts = True


class LeasedBroker(ottla.Broker):
    """A broker that may lead as long as the test says so."""

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        self.lease = Lease()
        return self._start_leased(settings)

    async def _start_leased(self, settings: BrokerSettings) -> RunningBroker:
        lease = self.lease

        class Leased(RunningBroker):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                self.may_lead = lambda: lease.lasts

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime, "RunningBroker", Leased)
            return await super()._start_broker(settings)


@pytest.fixture
def leased() -> Iterator[LeasedBroker]:
    with LeasedBroker() as broker:
        yield broker


@pytest.fixture
def connection(leased: LeasedBroker) -> Iterator[RawConnection]:
    with session_with(leased) as connected:
        yield connected


def test_only_a_fetch_is_answered_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    create(connection, TOPIC)
    fill(connection, TOPIC, b"v")
    group_requests.await_coordinator(connection)
    assert group_requests.commit(connection, "group", {(TOPIC, 0): 1}) == [ErrorCode.NONE]
    shards = on_loop(leased, lambda running: running.node.partitions.open_shards())

    leased.lease.lasts = False
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(connection, TOPIC, batch_of(b"w")).error_code == moved
    assert ask_offset(connection, TOPIC, LATEST).error_code == moved
    assert delete_records(connection, TOPIC, 1).error_code == moved
    commit = group_requests.commit(connection, "group", {(TOPIC, 0): 1})
    assert commit == [ErrorCode.NOT_COORDINATOR]
    assert values_in(fetch(connection, TOPIC, 0)) == [b"v"]

    leased.lease.lasts = True
    assert ask_offset(connection, TOPIC, LATEST).offset == 1, "nothing was appended"
    assert group_requests.commit(connection, "group", {(TOPIC, 0): 1}) == [ErrorCode.NONE]
    assert fill(connection, TOPIC, b"w") == [1]
    assert on_loop(leased, lambda running: running.node.partitions.open_shards()) == shards


def test_a_partition_that_is_not_open_is_not_claimed_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    create(connection, TOPIC)
    leased.lease.lasts = False
    found = fetch(connection, TOPIC, 0)
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert on_loop(leased, lambda running: running.node.partitions.open_shards()) == []


def test_a_fetch_that_waits_goes_on_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    create(connection, TOPIC)
    fill(connection, TOPIC, b"v")
    with session_with(leased) as reader:
        reader.send(fetch_request(TOPIC, 1, max_wait_ms=300), FETCH_VERSION)
        leased.lease.lasts = False
        assert produce(connection, TOPIC, batch_of(b"w")).error_code != ErrorCode.NONE
        (found,) = reader.receive(FetchResponse, FETCH_VERSION).responses[0].partitions
        assert (found.error_code, values_in(found)) == (ErrorCode.NONE, [])


def test_the_housekeeper_may_be_another_process(leased: LeasedBroker) -> None:
    asked: list[Housekeeping] = []

    def is_housekeeper(task: Housekeeping) -> bool:
        asked.append(task)
        return False

    def begin(running: RunningBroker) -> None:
        running.cluster.is_housekeeper = is_housekeeper

    on_loop(leased, begin)
    assert eventually(lambda: Housekeeping.DELETIONS in asked)
