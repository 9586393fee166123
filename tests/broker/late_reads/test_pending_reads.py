"""Reads that are pending until the test has them fetched: what waits for them, and what does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from tests.broker import group_requests
from tests.broker.late_reads.late_broker import LateBroker
from tests.broker.requests import (
    FETCH_VERSION,
    connection_count,
    create,
    delete,
    eventually,
    fetch,
    fetch_request,
    fill,
    on_loop,
    session_with,
    values_in,
    waiter_count,
)
from tests.broker.test_list_offsets import AT_MS, LATEST, MAX_TIMESTAMP
from tests.broker.test_list_offsets import ask as ask_offset
from tests.storage.late_engine import LateReads

from ottla.broker.partitions import replay
from ottla.broker.partitions.compactor import Compactor
from ottla.broker.partitions.shard import Shard
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LONG_MS = 20_000
TOPIC = "orders"


class HeldBroker(LateBroker):
    """A broker whose reads are fetched when the test says so."""

    def start(self) -> HeldBroker:
        super(LateBroker, self).start()
        return self

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        self.reads = LateReads()
        return start_broker(settings, Instruments(wrap_store=self._wrap))

    def pending(self) -> list[str]:
        """What is waited for, oldest first."""
        return on_loop(self, lambda _: [key[0] for key in self.reads.pending])

    def waits_for(self, *names: str) -> bool:
        return eventually(lambda: self.pending() == list(names))

    def fetch(self) -> None:
        """Fetches what was asked for first."""
        on_loop(self, lambda _: self.reads.fetch())

    def fetch_all(self) -> None:
        def work(_: RunningBroker) -> None:
            while self.reads.pending:
                self.reads.fetch()

        on_loop(self, work)

    def set_unavailable(self, is_unavailable: bool) -> None:
        self.reads.is_unavailable = is_unavailable


@pytest.fixture
def held() -> Iterator[HeldBroker]:
    with HeldBroker() as broker:
        yield broker


@pytest.fixture
def connection(held: HeldBroker) -> Iterator[RawConnection]:
    with session_with(held) as connected:
        yield connected


def make(
    connection: RawConnection, *values: bytes, topic: str = TOPIC, partitions: int = 1
) -> None:
    create(connection, topic, partitions)
    for partition in range(partitions):
        fill(connection, topic, *values, partition=partition)


def begin_fetch(connection: RawConnection, *, topic: str = TOPIC, **options: Any) -> None:
    connection.send(fetch_request(topic, 0, **{"max_wait_ms": LONG_MS, **options}), FETCH_VERSION)


def fetched(connection: RawConnection) -> PartitionData:
    answer = connection.receive(FetchResponse, FETCH_VERSION)
    data: PartitionData = answer.responses[0].partitions[0]
    return data


def shard_of(broker: HeldBroker, partition: int = 0) -> Callable[[], Shard | ErrorCode]:
    return lambda: on_loop(broker, lambda running: running.node.partitions.shard(TOPIC, partition))


# Fetch.


def test_a_fetch_is_answered_when_its_records_are_there(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    begin_fetch(connection)
    assert held.waits_for("read")
    assert waiter_count(held) == 1
    held.fetch()
    assert values_in(fetched(connection)) == [b"v"]
    assert waiter_count(held) == 0


def test_a_read_that_is_pending_again_is_waited_for_again(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    with session_with(held) as other:
        begin_fetch(connection)
        assert held.waits_for("read")
        begin_fetch(other)
        assert eventually(lambda: waiter_count(held) == 2)
        held.fetch()
        # What was fetched is kept for one of both.
        assert held.waits_for("read")
        assert waiter_count(held) == 1
        held.fetch()
        assert [values_in(fetched(one)) for one in (connection, other)] == [[b"v"], [b"v"]]


def test_a_fetch_does_not_wait_longer_than_it_may(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    began = time.monotonic()
    begin_fetch(connection, max_wait_ms=150)
    found = fetched(connection)
    assert 0.14 < time.monotonic() - began < 5
    assert (found.error_code, found.high_watermark, values_in(found)) == (ErrorCode.NONE, 1, [])
    held.fetch_all()
    assert values_in(fetch(connection, TOPIC, 0)) == [b"v"], "the next one finds it"


def test_a_fetch_that_has_something_does_not_wait_for_the_rest(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v", partitions=3)
    begin_fetch_of_all(connection)
    assert held.waits_for("read", "read", "read")
    held.fetch()
    assert all_fetched(connection) == {0: [b"v"]}
    held.fetch()
    begin_fetch_of_all(connection)
    assert all_fetched(connection) == {1: [b"v"]}
    held.fetch()
    begin_fetch_of_all(connection)
    assert all_fetched(connection) == {2: [b"v"]}


def begin_fetch_of_all(connection: RawConnection) -> None:
    partitions = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(3)
    ]
    request = FetchRequest(
        max_wait_ms=LONG_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=TOPIC, partitions=partitions)],
    )
    connection.send(request, FETCH_VERSION)


def all_fetched(connection: RawConnection) -> dict[int, list[bytes | None]]:
    (topic,) = connection.receive(FetchResponse, FETCH_VERSION).responses
    found = {one.partition_index: values_in(one) for one in topic.partitions}
    return {number: values for number, values in found.items() if values}


@pytest.mark.parametrize("partitions", [1, 300])
def test_a_slow_read_holds_up_nobody_else(
    held: HeldBroker, connection: RawConnection, partitions: int
) -> None:
    """Other requests of the same client are handled, and other clients answered."""
    make(connection, b"v")
    create(connection, "many", partitions)
    targets = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(partitions)
    ]
    fill(connection, "many", b"v")
    request = FetchRequest(
        max_wait_ms=LONG_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="many", partitions=targets)],
    )
    connection.send(request, FETCH_VERSION)
    assert held.waits_for("read")
    with session_with(held) as other:
        assert ask_offset(other, TOPIC, LATEST).offset == 1
        fill(other, TOPIC, b"w")
    held.fetch()
    (topic,) = connection.receive(FetchResponse, FETCH_VERSION).responses
    assert values_in(topic.partitions[0]) == [b"v"]


def test_a_store_that_cannot_be_reached_costs_no_claim(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    shard = shard_of(held)()
    held.set_unavailable(True)
    begin_fetch(connection, max_wait_ms=300)
    assert held.waits_for("read")
    held.fetch()
    found = fetched(connection)
    assert (found.error_code, values_in(found)) == (ErrorCode.NONE, [])
    assert shard_of(held)() is shard
    held.set_unavailable(False)
    begin_fetch(connection)
    assert held.waits_for("read")
    held.fetch()
    assert values_in(fetched(connection)) == [b"v"]


# What happens while a read is pending.


def test_the_topic_is_deleted_while_a_read_is_pending(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    begin_fetch(connection)
    assert held.waits_for("read")
    with session_with(held) as other:
        assert delete(other, TOPIC).error_code == ErrorCode.NONE
    assert fetched(connection).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    held.fetch_all()


def test_the_claim_is_fenced_while_a_read_is_pending(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    begin_fetch(connection)
    assert held.waits_for("read")

    def claim(running: RunningBroker) -> None:
        (shard,) = running.node.partitions.open_shards()
        running.cluster.store.claim(shard.log.ref, shard.config)

    on_loop(held, claim)
    held.fetch()
    assert fetched(connection).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert on_loop(held, lambda running: running.node.partitions.open_shards()) == []


def test_the_leader_moves_while_a_read_is_pending() -> None:
    with HeldBroker(nodes=2) as broker:
        leader = broker.node_ids[0]
        with RawConnection(broker.address_of(leader)) as connection:
            make(connection, b"v")
            with RawConnection(broker.address_of(broker.leader_of(TOPIC, 0))) as reader:
                begin_fetch(reader)
                assert broker.waits_for("read")
                old = broker.leader_of(TOPIC, 0)
                (other,) = (node for node in broker.node_ids if node != old)
                broker.move_leader(TOPIC, 0, other)
                assert fetched(reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                broker.fetch_all()


def test_the_connection_is_closed_while_a_read_is_pending(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    with session_with(held) as reader:
        begin_fetch(reader)
        assert held.waits_for("read")
    assert eventually(lambda: waiter_count(held) == 0)
    held.fetch()
    assert eventually(lambda: connection_count(held) == 1)
    begin_fetch(connection)
    assert values_in(fetched(connection)) == [b"v"]


def test_the_broker_stops_while_a_read_is_pending() -> None:
    broker = HeldBroker().start()
    with session_with(broker) as connection:
        make(connection, b"v")
        begin_fetch(connection, max_wait_ms=60_000)
        assert broker.waits_for("read")
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < 10
        assert values_in(fetched(connection)) == []


# ListOffsets.


def begin_lookup(connection: RawConnection, timestamp: int, timeout_ms: int = 0) -> None:
    request = ListOffsetsRequest(
        replica_id=-1,
        timeout_ms=timeout_ms,
        topics=[
            ListOffsetsTopic(
                name=TOPIC,
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)],
            )
        ],
    )
    connection.send(request, 11)


def looked_up(connection: RawConnection) -> tuple[int, int]:
    found = connection.receive(ListOffsetsResponse, 11).topics[0].partitions[0]
    return found.error_code, found.offset


@pytest.mark.parametrize("timestamp", [AT_MS, MAX_TIMESTAMP])
def test_a_lookup_waits_for_the_batch(
    held: HeldBroker, connection: RawConnection, timestamp: int
) -> None:
    make(connection, b"v")
    begin_lookup(connection, timestamp)
    assert eventually(lambda: len(held.pending()) == 1)
    with session_with(held) as other:
        assert ask_offset(other, TOPIC, LATEST).offset == 1
    held.fetch()
    assert looked_up(connection) == (ErrorCode.NONE, 0)


def test_a_lookup_is_given_up_when_its_time_is_over(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    begin_lookup(connection, AT_MS, timeout_ms=100)
    assert looked_up(connection) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_a_lookup_of_a_topic_that_is_deleted_meanwhile(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    begin_lookup(connection, AT_MS)
    assert held.waits_for("at timestamp")
    with session_with(held) as other:
        assert delete(other, TOPIC).error_code == ErrorCode.NONE
    held.fetch()
    assert looked_up(connection) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_a_lookup_in_a_store_that_cannot_be_reached(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    shard = shard_of(held)()
    held.set_unavailable(True)
    begin_lookup(connection, AT_MS)
    assert held.waits_for("at timestamp")
    held.fetch()
    assert looked_up(connection) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert shard_of(held)() is shard


# Opening partitions and coordinators.


def discard_all(broker: HeldBroker) -> None:
    def work(running: RunningBroker) -> None:
        for shard in running.node.partitions.open_shards():
            running.node.partitions.discard(shard)
            shard.resign()

    on_loop(broker, work)


def test_a_replay_that_waits_lets_others_go_on(held: HeldBroker, connection: RawConnection) -> None:
    make(connection, b"v", partitions=2)
    discard_all(held)
    first, second = shard_of(held, 0), shard_of(held, 1)
    assert first() is second() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert held.waits_for("headers", "headers")
    on_loop(held, lambda _: held.reads.fetch(list(held.reads.pending)[1]))
    assert eventually(lambda: isinstance(second(), Shard))
    assert first() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    held.fetch()
    assert eventually(lambda: isinstance(first(), Shard))


def test_a_replay_goes_on_when_the_store_is_back(
    held: HeldBroker, connection: RawConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "UNAVAILABLE_SECONDS", 0.01)
    make(connection, b"v")
    discard_all(held)
    find = shard_of(held)
    assert find() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    held.set_unavailable(True)
    for _ in range(3):
        assert held.waits_for("headers")
        held.fetch()
    assert find() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    held.set_unavailable(False)
    assert held.waits_for("headers")
    held.fetch()
    assert eventually(lambda: isinstance(find(), Shard))


def test_a_topic_that_is_deleted_while_it_is_replayed(
    held: HeldBroker, connection: RawConnection
) -> None:
    make(connection, b"v")
    discard_all(held)
    assert shard_of(held)() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert held.waits_for("headers")
    assert delete(connection, TOPIC).error_code == ErrorCode.NONE
    held.fetch()
    assert shard_of(held)() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_coordinator_is_loading_until_its_records_are_there() -> None:
    with HeldBroker({"offsets.topic.num.partitions": 1}) as held, session_with(held) as connection:
        create(connection, TOPIC)
        group_requests.find_coordinator(connection, "group")
        assert group_requests.commit(connection, "group", {(TOPIC, 0): 7}) == [ErrorCode.NONE]
        discard_all(held)

        def error() -> list[ErrorCode]:
            return group_requests.commit(connection, "group", {(TOPIC, 0): 8})

        assert error() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert held.waits_for("headers")
        held.fetch()
        assert eventually(lambda: bool(error()) and held.pending() == ["read"])
        assert error() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        held.fetch()
        assert eventually(lambda: error() == [ErrorCode.NONE])


# Compaction.


def test_a_compaction_waits_for_what_it_reads(held: HeldBroker, connection: RawConnection) -> None:
    options = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    create(connection, TOPIC, 1, options)
    fill(connection, TOPIC, b"1", b"2", b"3")

    async def clean(running: RunningBroker) -> bool:
        return await Compactor(running.node).clean_dirtiest()

    def begin(running: RunningBroker) -> Any:
        (shard,) = running.node.partitions.open_shards()
        shard.roll()
        return asyncio.ensure_future(clean(running))

    cleaning = on_loop(held, begin)
    for _ in range(3):  # what was aborted, the keys, the records
        assert held.waits_for("scan")
        with session_with(held) as other:
            assert ask_offset(other, TOPIC, LATEST).offset == 3
        held.fetch()
    assert eventually(cleaning.done)
    assert cleaning.result()
    begin_fetch(connection)
    assert held.waits_for("read")
    held.fetch()
    assert values_in(fetched(connection)) == [b"3"]
