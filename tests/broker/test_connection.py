"""A connection: frames however they arrive, answers in the order of the requests, nothing left behind."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    batch_of,
    connection_count,
    create,
    eventually,
    fetch,
    fetch_request,
    fill,
    on_loop,
    produce,
    produce_request,
    read_values,
    session_with,
    values_in,
    waiter_count,
)

import ottla
from ottla.broker.network import server
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message
from ottla.wire.framing import frame_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceResponse

pytestmark = pytest.mark.usefixtures("event_loop_kind")
LONG_MS = 20_000
API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture
def broker(event_loop_kind: str) -> Iterator[ottla.Broker]:
    with ottla.Broker() as running:
        loop = type(running._loop).__module__
        assert loop.startswith("uvloop") == (event_loop_kind == "uvloop")
        yield running


def next_id(connection: RawConnection) -> int:
    """The correlation id of the next answer."""
    (correlation_id,) = struct.unpack_from(">i", connection.receive_frame())
    return int(correlation_id)


# Order.


def test_what_follows_a_parked_fetch_is_answered_after_it(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    other = f"{topic}-other"
    create(connection, other)
    began = time.monotonic()
    first = connection.send(fetch_request(topic, 0, max_wait_ms=200), 12)
    second = connection.send(produce_request(other, batch_of(b"v")), 12)
    third = connection.send(API_VERSIONS, 4)
    # The produce takes effect although its answer has to wait.
    with session_with(broker) as reader:
        assert eventually(lambda: read_values(reader, other) == [b"v"])
    assert [next_id(connection) for _ in range(3)] == [first, second, third]
    assert time.monotonic() - began > 0.19


def test_a_produce_wakes_the_fetch_before_it_on_the_same_connection(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    connection.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    connection.send(produce_request(topic, batch_of(b"v")), 12)
    fetched = connection.receive(FetchResponse, 12).responses[0].partitions[0]
    assert values_in(fetched) == [b"v"]
    produced = connection.receive(ProduceResponse, 12).responses[0].partition_responses[0]
    assert produced.error_code == ErrorCode.NONE


def test_many_pipelined_requests_are_answered_in_their_order(
    connection: RawConnection, topic: str
) -> None:
    chance = random.Random(2)
    create(connection, topic)
    empty = f"{topic}-empty"
    create(connection, empty)
    kinds: list[tuple[Any, int]] = [
        (API_VERSIONS, 4),
        (MetadataRequest(topics=[]), 9),
        (produce_request(topic, batch_of(b"v")), 9),
        (fetch_request(topic, 0), 12),
        (fetch_request(empty, 0, max_wait_ms=3), 12),
    ]
    sent = [connection.send(*chance.choice(kinds)) for _ in range(400)]
    assert [next_id(connection) for _ in sent] == sent


def test_more_parked_fetches_than_may_be_unanswered(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    request = fetch_request(topic, 0, max_wait_ms=30)
    frames = [frame_request(request, 12, number, None) for number in range(2500)]
    connection.socket.sendall(b"".join(frames))
    assert [next_id(connection) for _ in frames] == list(range(2500))


def test_acks_0_leaves_no_hole_in_the_order(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    answered = []
    answered.append(connection.send(fetch_request(topic, 0, max_wait_ms=100, min_bytes=99999), 12))
    connection.send(produce_request(topic, batch_of(b"v"), acks=0), 12)
    answered.append(connection.send(API_VERSIONS, 4))
    connection.send(produce_request(topic, batch_of(b"v"), acks=0), 12)
    answered.append(connection.send(produce_request(topic, batch_of(b"v")), 12))
    assert [next_id(connection) for _ in answered] == answered
    assert fetch(connection, topic, 0).high_watermark == 3


# Frames.


def test_a_frame_may_be_split_anywhere(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    frame = frame_request(produce_request(topic, batch_of(b"v")), 9, 5, "split")
    for position in range(1, len(frame)):
        connection.socket.sendall(frame[:position])
        time.sleep(0.0005)
        connection.socket.sendall(frame[position:])
        assert next_id(connection) == 5
    assert fetch(connection, topic, 0).high_watermark == len(frame) - 1


def test_frames_may_come_byte_by_byte(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    frames = b"".join(
        frame_request(produce_request(topic, batch_of(b"v")), 9, number, None) for number in (0, 1)
    )
    for byte in frames:
        connection.socket.sendall(bytes([byte]))
    assert [next_id(connection) for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 100, 1000, 65537])
def test_many_frames_in_pieces_of_any_size(
    connection: RawConnection, topic: str, piece_bytes: int
) -> None:
    create(connection, topic)
    count = 20 if piece_bytes < 10 else 300
    frames = b"".join(
        frame_request(produce_request(topic, batch_of(b"%d" % number)), 9, number, None)
        for number in range(count)
    )
    for start in range(0, len(frames), piece_bytes):
        connection.socket.sendall(frames[start : start + piece_bytes])
    assert [next_id(connection) for _ in range(count)] == list(range(count))
    assert read_values(connection, topic) == [b"%d" % number for number in range(count)]


def test_a_large_frame_between_small_ones(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"max.message.bytes": str(60 << 20)})
    large = random.Random(3).randbytes(50 << 20)
    sent = [
        connection.send(API_VERSIONS, 4),
        connection.send(produce_request(topic, batch_of(large)), 9),
        connection.send(produce_request(topic, batch_of(b"small")), 9),
    ]
    assert [next_id(connection) for _ in sent] == sent
    assert values_in(fetch(connection, topic, 0, max_bytes=1)) == [large]
    assert values_in(fetch(connection, topic, 1)) == [b"small"]


def test_the_client_id_and_unknown_tags_of_the_header_are_skipped(
    connection: RawConnection,
) -> None:
    body = frame_request(API_VERSIONS, 4, 9, "c")[4:]
    start, rest = body[:11], body[12:]  # up to the tags of the header, and what is behind them
    tagged = start + b"\x02" + b"\x05\x03abc" + b"\x07\x00" + rest
    connection.socket.sendall(struct.pack(">i", len(tagged)) + tagged)
    frame = connection.receive_frame()
    assert decode_message(ApiVersionsResponse, 4, frame, 4).error_code == ErrorCode.NONE


# The end.


def test_a_client_that_leaves_takes_its_parked_fetches_with_it(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic, 3)
    before = connection_count(broker)
    for reset in (False, True):
        leaver = RawConnection(broker.bootstrap_servers)
        for partition in range(3):
            leaver.send(fetch_request(topic, 0, partition=partition, max_wait_ms=LONG_MS), 12)
        assert eventually(lambda: waiter_count(broker) == 3)
        if reset:
            leaver.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        leaver.close()
        assert eventually(lambda: waiter_count(broker) == 0)
        assert eventually(lambda: connection_count(broker) == before)
    fill(connection, topic, b"v")


def test_a_client_that_sends_no_more_is_let_go(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    before = connection_count(broker)
    with session_with(broker) as half:
        half.send(API_VERSIONS, 4)
        half.socket.shutdown(socket.SHUT_WR)
        assert half.receive(ApiVersionsResponse, 4).error_code == ErrorCode.NONE
        with pytest.raises(ConnectionError):
            half.receive_frame()
        assert eventually(lambda: connection_count(broker) == before)


def test_a_client_that_leaves_in_the_middle_of_a_frame(
    broker: ottla.Broker,
    connection: RawConnection,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "ottla")
    create(connection, topic)
    before = connection_count(broker)
    frame = frame_request(produce_request(topic, batch_of(b"x" * 1000)), 9, 0, None)
    for size in (1, 3, 4, 5, 500, len(frame) - 1):
        with session_with(broker) as leaver:
            leaver.socket.sendall(frame[:size])
    # Those that the broker has not accepted yet are not counted: only the log tells that all six are over.
    assert eventually(lambda: caplog.text.count("ended in the middle of a request") == 6)
    assert connection_count(broker) == before
    assert read_values(connection, topic) == []


def test_connections_come_and_go(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    before = connection_count(broker)
    many = [RawConnection(broker.bootstrap_servers) for _ in range(100)]
    for each in many:
        each.send(API_VERSIONS, 4)
    for each in many:
        assert each.receive(ApiVersionsResponse, 4).error_code == ErrorCode.NONE
    assert connection_count(broker) == before + 100
    for each in many:
        each.close()
    assert eventually(lambda: connection_count(broker) == before)
    assert on_loop(broker, lambda found: len(found.server._per_host)) == 1


def test_stopping_answers_what_was_taken(
    start: Starter, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", 20.0)
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        sent = [
            connection.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12),
            connection.send(produce_request(topic, batch_of(b"v")), 12),
            connection.send(fetch_request(topic, 5, max_wait_ms=LONG_MS), 12),
            connection.send(fetch_request(topic, 1, max_wait_ms=LONG_MS), 12),
        ]
        assert eventually(lambda: waiter_count(broker) == 1)
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < 10
        assert [next_id(connection) for _ in sent] == sent
        with pytest.raises(ConnectionError):
            connection.receive_frame()
    with session_with(start()) as connection:
        assert read_values(connection, topic) == [b"v"]


def test_stopping_does_not_wait_for_idle_clients(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", 20.0)
    broker = start()
    idle = [RawConnection(broker.bootstrap_servers) for _ in range(10)]
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 10
    for each in idle:
        with pytest.raises(ConnectionError):
            each.receive_frame()
        each.close()


def test_nothing_is_shared_between_connections(broker: ottla.Broker, topic: str) -> None:
    """All connections receive into one buffer: half a frame of one may not end up in another."""
    with session_with(broker) as connection:
        create(connection, topic)
        many = [RawConnection(broker.bootstrap_servers) for _ in range(10)]
        frames = [
            frame_request(produce_request(topic, batch_of(bytes([65 + number]) * 3000)), 9, 0, None)
            for number in range(10)
        ]
        for piece in range(0, len(frames[0]), 700):
            for each, frame in zip(many, frames, strict=True):
                each.socket.sendall(frame[piece : piece + 700])
        for each in many:
            result = each.receive(ProduceResponse, 9).responses[0].partition_responses[0]
            assert result.error_code == ErrorCode.NONE
            each.close()
        values = sorted(value or b"" for value in read_values(connection, topic))
        assert values == [bytes([65 + number]) * 3000 for number in range(10)]
        assert produce(connection, topic, batch_of(b"v")).base_offset == 10
