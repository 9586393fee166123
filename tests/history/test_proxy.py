"""The proxy holds requests back, repeats and loses them, and keeps those of version 1 in their transaction."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.processes import first_of_free_ports
from tests.history.events import Recorder
from tests.history.frames import Frame
from tests.history.one_transaction import OneTransaction
from tests.history.proxy import CALM, Fault, ProxyThread, Route, Weather

import ottla
from ottla.client.raw import RawConnection
from ottla.model import Endpoint
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.framing import frame_request
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

ANSWER = b"\x00\x00\x00\x04\x00\x00\x00\x07"
WAIT_SECONDS = 10.0
VERSION_1, VERSION_2 = 4, 5


class Upstream(threading.Thread):
    """Stands for the broker: notes the frames that arrive, and answers each of them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Endpoint(*self._listener.getsockname())
        self.frames: list[bytes] = []
        self._changed = threading.Condition()
        self.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while size := stream.read(4):
                    frame = size + stream.read(int.from_bytes(size))
                    with self._changed:
                        self.frames.append(frame)
                        self._changed.notify_all()
                    connection.sendall(ANSWER)
            except OSError:
                return

    def await_frames(self, count: int) -> list[bytes]:
        with self._changed:
            self._changed.wait_for(lambda: len(self.frames) >= count, WAIT_SECONDS)
            return list(self.frames)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Stage:
    """A proxy between a test and its upstream."""

    def __init__(self, folder: Path) -> None:
        self.upstream = Upstream()
        self.listen = Endpoint("127.0.0.1", first_of_free_ports(1))
        routes = [Route(self.listen, self.upstream.address)]
        self.proxy = ProxyThread(routes, 1, Recorder(folder, "proxy"))
        self.proxy.start()

    def set_fault(self, fault: Fault) -> None:
        self.proxy.set_weather(Weather({fault: 1.0}, {}, longest_hold_seconds=0.2))

    def set_calm(self) -> None:
        self.proxy.set_weather(CALM)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.listen.host, self.listen.port), WAIT_SECONDS)

    def call(self, frame: bytes) -> bytes:
        """What a client that sends a request sees: the answer, or nothing."""
        with self.connect() as connection:
            try:
                connection.sendall(frame)
                return connection.recv(len(ANSWER))
            except ConnectionError:
                return b""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.proxy.stop()
    made.upstream.close()


def end_of(epoch: int, version: int) -> bytes:
    request = EndTxnRequest(
        transactional_id="id", producer_id=1, producer_epoch=epoch, committed=True
    )
    return frame_request(request, version, 1, "client")


def beginning_of(epoch: int, *partitions: int) -> bytes:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="topic", partitions=list(partitions))],
    )
    return frame_request(request, 3, 2, "client")


def write_to(partition: int) -> bytes:
    batch = build_batch(
        [Record(0, 0, None, b"value")], producer_id=1, producer_epoch=0, base_sequence=0
    )
    data = PartitionProduceData(index=partition, records=batch)
    topics = [TopicProduceData(name="topic", partition_data=[data])]
    request = ProduceRequest(transactional_id="id", acks=-1, timeout_ms=1000, topic_data=topics)
    return frame_request(request, 11, 3, "client")


def test_what_is_forwarded_arrives_unchanged_and_is_answered(stage: Stage) -> None:
    frame = end_of(0, VERSION_2)
    assert stage.call(frame) == ANSWER
    assert stage.upstream.await_frames(1) == [frame]


def test_a_lost_request_never_arrives(stage: Stage) -> None:
    stage.set_fault(Fault.LOSE)
    assert stage.call(end_of(0, VERSION_2)) == b""
    stage.set_calm()
    assert stage.call(end_of(1, VERSION_2)) == ANSWER
    assert stage.upstream.frames == [end_of(1, VERSION_2)]


def test_a_request_arrives_although_its_answer_is_lost(stage: Stage) -> None:
    stage.set_fault(Fault.LOSE_ANSWER)
    assert stage.call(end_of(0, VERSION_2)) == b""
    assert stage.upstream.await_frames(1) == [end_of(0, VERSION_2)]


def test_a_request_that_is_held_back_arrives_when_its_connection_is_gone(stage: Stage) -> None:
    stage.set_fault(Fault.HOLD)
    assert stage.call(end_of(0, VERSION_2)) == b""
    stage.set_calm()
    assert stage.call(end_of(1, VERSION_2)) == ANSWER
    assert set(stage.upstream.await_frames(2)) == {end_of(0, VERSION_2), end_of(1, VERSION_2)}


def test_a_duplicate_arrives_late_and_is_answered_once(stage: Stage) -> None:
    stage.set_fault(Fault.DUPLICATE)
    with stage.connect() as connection:
        connection.sendall(end_of(0, VERSION_2))
        assert connection.recv(len(ANSWER)) == ANSWER
        assert stage.upstream.await_frames(2) == 2 * [end_of(0, VERSION_2)]
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_a_late_end_of_version_1_does_not_arrive_in_the_next_transaction(stage: Stage) -> None:
    stage.set_fault(Fault.HOLD)
    assert stage.call(end_of(0, VERSION_1)) == b""
    stage.set_calm()
    assert stage.call(end_of(0, VERSION_1)) == ANSWER
    assert stage.call(beginning_of(0)) == ANSWER
    stage.proxy.heal()
    arrived = stage.upstream.frames
    assert arrived[-1] == beginning_of(0)
    assert set(arrived[:-1]) == {end_of(0, VERSION_1)}


def test_a_late_end_of_version_1_arrives_when_another_producer_has_the_id(stage: Stage) -> None:
    stage.set_fault(Fault.HOLD)
    assert stage.call(end_of(0, VERSION_1)) == b""
    stage.set_calm()
    assert stage.call(beginning_of(1)) == ANSWER
    stage.proxy.heal()
    assert end_of(0, VERSION_1) in stage.upstream.await_frames(2)


def test_a_late_write_of_version_1_arrives_until_the_next_transaction_has_its_partition(
    stage: Stage,
) -> None:
    stage.set_fault(Fault.HOLD)
    for partition in (0, 1):
        assert stage.call(write_to(partition)) == b""
    stage.set_calm()
    assert stage.call(end_of(0, VERSION_1)) == ANSWER
    assert stage.call(beginning_of(0, 1)) == ANSWER
    stage.proxy.heal()
    arrived = stage.upstream.await_frames(3)
    assert write_to(0) in arrived
    assert write_to(1) not in arrived[arrived.index(beginning_of(0, 1)) :]


def test_a_late_write_of_version_1_ends_with_a_late_request_that_brings_its_partition_in() -> None:
    async def play() -> tuple[bool, bool]:
        keeper = OneTransaction()
        await keeper.enter(Frame(beginning_of(0, 0)))
        write = await keeper.enter(Frame(write_to(0)))
        await keeper.enter(Frame(end_of(0, VERSION_1)))
        await keeper.enter(Frame(beginning_of(0, 1)))
        before = write.is_over
        await keeper.arrive_late(Frame(beginning_of(0, 0)))
        return before, write.is_over

    assert asyncio.run(play()) == (False, True)


def test_clients_are_led_through_the_proxy_to_every_one_of_three_nodes(tmp_path: Path) -> None:
    first = first_of_free_ports(6)
    routes = [
        Route(Endpoint("127.0.0.1", first + 3 + n), Endpoint("127.0.0.1", first + n))
        for n in range(3)
    ]
    proxy = ProxyThread(routes, 1, Recorder(tmp_path, "proxy"))
    with ottla.Broker(nodes=3, listen=str(routes[0].broker), advertise=str(routes[0].listen)):
        proxy.start()
        try:
            for route in routes:
                with RawConnection(str(route.listen)) as connection:
                    answer = connection.call(MetadataRequest(topics=[]), MetadataResponse, 12)
                addresses = [Endpoint(one.host, one.port) for one in answer.brokers]
                assert addresses == [route.listen for route in routes]
        finally:
            proxy.stop()
