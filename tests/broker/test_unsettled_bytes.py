"""A store that is slow or stuck: producers wait, with their records, and cost the broker bounded memory."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker import group_requests
from tests.broker.requests import (
    batch_of,
    connection_count,
    create,
    eventually,
    fetch,
    fill,
    on_loop,
    produce_request,
    session_with,
    values_in,
)
from tests.storage.late_engine import LateStore

import ottla
from ottla.broker.clock import SystemClock
from ottla.broker.partitions import unsettled_bytes
from ottla.broker.partitions.unsettled_bytes import BOUND_BYTES, UnsettledBytes, WaitingProducer
from ottla.broker.plain_requests import produce as plain_requests
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.client.raw import RawConnection
from ottla.config.topic import TopicConfig
from ottla.core.catalog import INTERNAL_TOPICS
from ottla.errors import ErrorCode
from ottla.ports import LogStore, PartitionRef
from ottla.storage.memory import MemoryLog, MemoryStore
from ottla.wire.framing import frame_request
from ottla.wire.messages.produce import ProduceResponse

TOPIC = "orders"
PRODUCE_VERSION = 9
SMALL_BOUND = 64 << 10
MEGABYTE = 1 << 20
PRODUCERS = 48
OFFERED_BYTES = 960 * MEGABYTE
# What is not durable, a frame of each connection and room for the next, and what the interpreter needs.
ALLOWED_BYTES = BOUND_BYTES + 2 * PRODUCERS * MEGABYTE + 40 * MEGABYTE


class StuckStore(LateStore):
    """An engine that makes no record durable before the test lets it; but it does those of internal topics."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.is_stuck = True

    def claim(self, ref: PartitionRef, config: TopicConfig) -> MemoryLog:
        return (MemoryStore if ref.topic in INTERNAL_TOPICS else LateStore).claim(self, ref, config)

    def later(self, change: Any) -> asyncio.Future[Any]:
        done = super().later(change)
        done.add_done_callback(asyncio.Future.exception)  # that a claim has ended, at the stop
        if not self.is_stuck:
            asyncio.get_running_loop().call_later(0.001, self.settle)
        return done


class StuckBroker(ottla.Broker):
    """A broker over such an engine."""

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        return start_broker(settings, Instruments(wrap_store=self._replace))

    def _replace(self, store: LogStore) -> LogStore:
        store.close()
        self.store = StuckStore()
        return cast(LogStore, self.store)

    def release(self) -> None:
        """Makes everything durable, and what comes later, too."""

        def work(_: RunningBroker) -> None:
            self.store.is_stuck = False
            while self.store.changes:
                self.store.settle()

        on_loop(self, work)

    def unsettled(self) -> int:
        return on_loop(self, lambda running: running.node.unsettled.total)

    def waiting(self) -> int:
        return on_loop(self, lambda running: running.node.unsettled.waiting_count)


@pytest.fixture
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsettled_bytes, "BOUND_BYTES", SMALL_BOUND)


@pytest.fixture
def stuck() -> Iterator[StuckBroker]:
    with StuckBroker() as broker:
        yield broker
        broker.release()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def flood(connections: Sequence[RawConnection], frame: bytes, most_bytes: int) -> int:
    """Has each connection send the frame again and again until the broker reads no more; returns what was sent."""
    left = {connection.socket: memoryview(frame) for connection in connections}
    for each in left:
        each.setblocking(False)
    sent, progressed = 0, time.monotonic()
    while sent < most_bytes and time.monotonic() - progressed < 1.0:
        for each, rest in left.items():
            try:
                count = each.send(rest)
            except BlockingIOError:
                continue
            sent += count
            progressed = time.monotonic()
            left[each] = rest[count:] or memoryview(frame)
        time.sleep(0.001)
    for each in left:
        each.setblocking(True)
    return sent


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")
@pytest.mark.parametrize("acks", [-1, 0])
def test_a_flood_of_producers_costs_bounded_memory_while_the_store_is_stuck(
    stuck: StuckBroker, acks: int
) -> None:
    with ExitStack() as stack:
        other = stack.enter_context(session_with(stuck))
        create(other, TOPIC)
        group_requests.await_coordinator(other)
        connections = [stack.enter_context(session_with(stuck)) for _ in range(PRODUCERS)]
        request = produce_request(TOPIC, batch_of(b"v" * (MEGABYTE - 2000)), acks=acks)
        frame = frame_request(request, PRODUCE_VERSION, 1, None)
        before = resident_bytes()
        sent = flood(connections, frame, OFFERED_BYTES)
        grown = resident_bytes() - before
        assert grown < ALLOWED_BYTES, (sent, grown)
        assert sent < OFFERED_BYTES, "the rest stays with the clients"
        assert BOUND_BYTES <= stuck.unsettled() < BOUND_BYTES + MEGABYTE
        assert stuck.waiting() == PRODUCERS
        # Others are served.
        began = time.monotonic()
        assert values_in(fetch(other, TOPIC, 0)) == []
        assert group_requests.commit(other, "group", {(TOPIC, 0): 1}) == [ErrorCode.NONE]
        assert time.monotonic() - began < 5


@pytest.mark.usefixtures("small_bound")
@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("acks", [-1, 0])
@pytest.mark.parametrize("value_bytes", [100, 200_000])
def test_what_waited_is_appended_once_and_in_order(
    stuck: StuckBroker,
    acks: int,
    value_bytes: int,
    is_plain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_plain:
        monkeypatch.setattr(plain_requests, "read_plain_requests", lambda *_: [])
    count = 2000 if value_bytes == 100 else 20
    values = [number.to_bytes(4, "big") + b"v" * value_bytes for number in range(count)]
    with session_with(stuck) as first, session_with(stuck) as second, session_with(stuck) as reader:
        create(reader, TOPIC, 2)
        frames = [
            b"".join(
                frame_request(
                    produce_request(TOPIC, batch_of(value), partition=partition, acks=acks),
                    PRODUCE_VERSION,
                    number,
                    None,
                )
                for number, value in enumerate(values)
            )
            for partition in range(2)
        ]
        senders = [
            _send_later(each, data) for each, data in zip((first, second), frames, strict=True)
        ]
        assert eventually(lambda: stuck.waiting() == 2)
        assert stuck.unsettled() >= SMALL_BOUND
        stuck.release()
        for sender, connection in zip(senders, (first, second), strict=True):
            for offset in range(count if acks else 0):
                answer = connection.receive(ProduceResponse, PRODUCE_VERSION)
                found = answer.responses[0].partition_responses[0]
                assert (found.error_code, found.base_offset) == (ErrorCode.NONE, offset)
            sender.join(30)
        for partition in range(2):
            assert _read_all(reader, partition, count) == values
        assert eventually(lambda: stuck.unsettled() == 0)
        assert stuck.waiting() == 0


def _send_later(connection: RawConnection, data: bytes) -> threading.Thread:
    def send() -> None:
        connection.socket.sendall(data)

    sender = threading.Thread(target=send)
    sender.start()
    return sender


def _read_all(reader: RawConnection, partition: int, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += values_in(fetch(reader, TOPIC, len(found), partition=partition, max_wait_ms=1000))
    return found


@pytest.mark.usefixtures("small_bound")
def test_a_connection_that_waits_is_not_closed_as_idle() -> None:
    with StuckBroker(connections_max_idle_ms=300) as broker:
        with session_with(broker) as other:
            create(other, TOPIC)
        with session_with(broker) as writer:
            for _ in range(3):
                writer.send(produce_request(TOPIC, batch_of(b"v" * SMALL_BOUND), acks=0), 9)
            assert eventually(lambda: broker.waiting() == 1)
            time.sleep(1.2)
            assert connection_count(broker) == 1
            broker.release()
            assert fill(writer, TOPIC, b"last") == [3]


@pytest.mark.usefixtures("small_bound")
def test_a_client_that_leaves_gives_its_turn_to_the_next(stuck: StuckBroker) -> None:
    with session_with(stuck) as writer, session_with(stuck) as patient:
        create(writer, TOPIC)
        for _ in range(2):
            writer.send(produce_request(TOPIC, batch_of(b"v" * SMALL_BOUND)), 9)
        assert eventually(lambda: stuck.waiting() == 1)
        patient.send(produce_request(TOPIC, batch_of(b"v")), 9)
        assert eventually(lambda: stuck.waiting() == 2)
        # A reset is noticed although the connection is not read.
        linger = (1).to_bytes(4, sys.byteorder) + bytes(4)
        writer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.socket.close()
        stuck.release()
        answer = patient.receive(ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert eventually(lambda: stuck.waiting() == 0 and stuck.unsettled() == 0)


@pytest.mark.usefixtures("small_bound")
def test_a_partition_that_is_given_up_makes_room(stuck: StuckBroker) -> None:
    with session_with(stuck) as writer, session_with(stuck) as other:
        create(writer, TOPIC, 2)
        writer.send(produce_request(TOPIC, batch_of(b"v" * SMALL_BOUND)), 9)
        assert eventually(lambda: stuck.unsettled() > SMALL_BOUND)
        other.send(produce_request(TOPIC, batch_of(b"v"), partition=1), 9)
        assert eventually(lambda: stuck.waiting() == 1)

        def give_up(running: RunningBroker) -> None:
            shard = running.node.partitions.open_shard(TOPIC, 0)
            assert shard is not None
            shard.resign()

        on_loop(stuck, give_up)
        assert eventually(lambda: stuck.waiting() == 0)
        assert 0 < stuck.unsettled() < 1000
        stuck.release()
        answer = other.receive(ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


# The line of those that wait.


class Producer:
    """Appends so many bytes in its turn, and would go on."""

    def __init__(self, unsettled: UnsettledBytes, served: list[Producer], size_bytes: int) -> None:
        self._unsettled = unsettled
        self._served = served
        self._size_bytes = size_bytes

    def produce(self) -> None:
        while not (self._unsettled.holds_back and self._unsettled.must_wait(self)):
            self._served.append(self)
            self._unsettled.add(self._size_bytes)

    def go_on_producing(self) -> None:
        self.produce()


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("small_bound")
def test_producers_take_turns() -> None:
    async def scenario() -> None:
        unsettled = UnsettledBytes()
        served: list[Producer] = []
        one, two, three = (Producer(unsettled, served, SMALL_BOUND // 2) for _ in range(3))
        for each in (one, two, three):
            each.produce()
        assert served == [one, one], "then there is no room"
        for _ in range(2):
            unsettled.remove(SMALL_BOUND // 2)
        await _turns()
        assert served[2:] == [one, two], "a request each, in the order in which they came"
        unsettled.remove(SMALL_BOUND // 2)
        await _turns()
        assert served[4:] == [three]
        unsettled.forget(one)
        unsettled.forget(two)
        unsettled.forget(three)
        unsettled.remove(SMALL_BOUND)
        await _turns()
        assert (unsettled.total, unsettled.holds_back, len(served)) == (0, False, 5)

    asyncio.run(scenario())


@pytest.mark.usefixtures("small_bound")
def test_what_waits_before_it_is_appended_counts() -> None:
    async def scenario() -> None:
        unsettled = UnsettledBytes()
        with unsettled.holding(SMALL_BOUND):
            assert unsettled.holds_back
        assert (unsettled.total, unsettled.holds_back) == (0, False)

    asyncio.run(scenario())


_: type[WaitingProducer] = Producer
