"""A connection's frames, without sockets: however bytes arrive, and whatever they are."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.network.fake_broker import HEARTBEAT

from ottla.client.aio.network.connection import Connection
from ottla.client.model import VersionRange
from ottla.errors import KafkaError, RetriableError
from ottla.model import Endpoint
from ottla.wire.framing import frame_request, frame_response, request_parts
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0


def connect() -> tuple[Connection, Wire]:
    connection = Connection(Endpoint("h", 1), 1, "me", 30_000, lambda connection, error: None)
    connection.versions = {3: VersionRange(0, 13), 12: VersionRange(0, 4)}
    wire = Wire()
    connection.connection_made(wire)
    return connection, wire


def deliver(connection: Connection, data: bytes, cuts: list[int]) -> None:
    """Give the bytes in pieces, each as large as the connection's buffer allows."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        while start < end and connection.closed is None:
            buffer = connection.get_buffer(-1)
            count = min(len(buffer), end - start)
            assert count > 0
            buffer[:count] = data[start : start + count]
            connection.buffer_updated(count)
            start += count


def producing() -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=bytes(100_000))]
    topics = [TopicProduceData(name="t", partition_data=data)]
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=topics)


def test_what_is_sent_while_the_transport_closes_fails_with_the_connection() -> None:
    """asyncio's own `writelines` does not look, and fails in its own ways, or never ends."""

    async def check() -> None:
        connection, wire = connect()
        wire.closing = True
        answer = connection.send(producing(), 8)
        assert not wire.written
        connection.connection_lost(None)
        with pytest.raises(RetriableError):
            await answer

    asyncio.run(check())


def test_no_part_of_a_request_is_empty() -> None:
    """Records are the last field of some versions; asyncio never gets rid of an empty last part."""
    for version in (8, 9):
        parts = request_parts(producing(), version, 1, "me")
        assert len(parts) >= 2
        assert all(map(len, parts))
        assert b"".join(parts) == frame_request(producing(), version, 1, "me")


# A broker takes about 1000 bytes, the buffer for small answers has 64 KB.
counts = st.lists(st.sampled_from([0, 1, 64, 65, 66, 200]), min_size=1, max_size=6)
pieces = st.lists(st.integers(0, 10**7), max_size=20)


@given(counts, pieces)
def test_every_request_gets_its_answer_however_the_bytes_are_cut(
    counts: list[int], cuts: list[int]
) -> None:
    async def main() -> None:
        connection, _ = connect()
        answers, data = [], b""
        for number, count in enumerate(counts):
            answers.append(connection.send(MetadataRequest(topics=None), 9))
            broker = MetadataResponseBroker(node_id=number, host="h", port=1, rack="x" * 990)
            message = MetadataResponse(brokers=[broker] * count, topics=[])
            data += b"".join(bytes(part) for part in frame_response(message, 9, number))
        deliver(connection, data, cuts)
        assert connection.closed is None
        got = [(await answer).brokers for answer in answers]
        assert [len(brokers) for brokers in got] == counts
        assert all(b.node_id == n for n, brokers in enumerate(got) for b in brokers)
        connection.close()

    asyncio.run(main())


@given(st.binary(min_size=1, max_size=300), pieces)
def test_garbage_costs_the_connection_and_nothing_else(garbage: bytes, cuts: list[int]) -> None:
    async def main() -> None:
        connection, wire = connect()
        answers = [connection.send(HEARTBEAT, version) for version in (0, 1, 4)]
        deliver(connection, garbage, cuts)
        connection.connection_lost(None)
        assert wire.aborted or connection.closed is not None
        for answer in answers:
            assert isinstance(answer.exception(), RetriableError) or answer.result() is not None

    asyncio.run(main())


@given(st.integers(0, 60), st.binary(min_size=1, max_size=4), pieces)
def test_damaged_answers_cost_the_connection_and_nothing_else(
    place: int, damage: bytes, cuts: list[int]
) -> None:
    async def main() -> None:
        connection, _ = connect()
        answer = connection.send(MetadataRequest(topics=None), 9)
        message = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="host", port=1, rack="rack")],
            topics=[],
        )
        data = bytearray(b"".join(bytes(part) for part in frame_response(message, 9, 0)))
        data[place : place + len(damage)] = damage
        deliver(connection, bytes(data), cuts)
        connection.connection_lost(None)
        if answer.exception() is not None:
            assert isinstance(answer.exception(), KafkaError)

    asyncio.run(main())


def test_requests_that_are_held_back_follow_in_their_order() -> None:
    async def main() -> None:
        connection, wire = connect()
        first = connection.send(HEARTBEAT, 4)
        connection.hold()
        held = [connection.send(HEARTBEAT, 4) for _ in range(3)]
        connection.send_unanswered(HEARTBEAT, 4)
        ahead = connection.send_ahead(HEARTBEAT, 4)
        assert len(wire.written) == 2
        assert connection.in_flight == 5
        connection.release()
        # Correlation ids are those of the calls; the broker answers in the order on the wire.
        order = [int.from_bytes(frame[8:12], "big") for frame in wire.written]
        assert order == [0, 5, 1, 2, 3, 4]
        for number in (0, 5, 1, 2, 3):
            message = HeartbeatResponse(error_code=number)
            parts = frame_response(message, 4, number)
            deliver(connection, b"".join(bytes(part) for part in parts), [])
        got = [(await answer).error_code for answer in (first, ahead, *held)]
        assert got == [0, 5, 1, 2, 3]
        connection.close()

    asyncio.run(main())


def test_requests_that_are_held_back_fail_with_the_connection() -> None:
    async def main() -> None:
        connection, _ = connect()
        connection.hold()
        held = connection.send(HEARTBEAT, 4)
        connection.close("it was given up")
        assert isinstance(held.exception(), RetriableError)

    asyncio.run(main())
