"""Whatever is sent to the port: a clear log line, a closed connection, and nobody else notices."""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import Iterator

import pytest
from tests.broker.processes import ServeProcess
from tests.broker.requests import (
    batch_of,
    connection_count,
    create,
    eventually,
    fetch_request,
    fill,
    produce_request,
    read_values,
    session_with,
)

import ottla
from ottla.broker.requests.apis import SERVED
from ottla.client.raw import RawConnection
from ottla.wire.framing import frame_request
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = pytest.mark.usefixtures("event_loop_kind")

TLS_HELLO = bytes.fromhex("16030102000100 01fc0303".replace(" ", "")) + bytes(508)
HTTP_GET = b"GET / HTTP/1.1\r\nHost: localhost:9092\r\n\r\n"


@pytest.fixture
def broker(event_loop_kind: str) -> Iterator[ottla.Broker]:
    with ottla.Broker(socket_request_max_bytes=10_000_000) as running:
        yield running


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, client_id: bytes | None = b"t") -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api_key, version, 1, length) + (client_id or b"")


def errors_of_ours(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged above warnings; threads of other tests' clients may be at it too."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno > logging.WARNING and record.name.startswith("ottla")
    ]


def assert_closed_by(broker: ottla.Broker, data: bytes) -> None:
    """Sends the data and waits until the broker has closed the connection, with no answer."""
    with RawConnection(broker.bootstrap_servers) as connection:
        try:
            connection.socket.sendall(data)
            got = connection.socket.recv(100)
        except ConnectionError:
            got = b""
        assert got == b""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (TLS_HELLO, "TLS handshake"),
        (HTTP_GET, "HTTP request"),
        (b"POST / HTTP/1.1\r\n\r\n", "HTTP request"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH client"),
        (struct.pack(">i", -1) + b"abc", "a frame of -1 bytes"),
        (struct.pack(">i", -(2**31)), "a frame of -2147483648 bytes"),
        (struct.pack(">i", 2**31 - 1), "a frame of 2147483647 bytes"),
        (struct.pack(">i", 10_000_001), "a frame of 10000001 bytes"),
        (struct.pack(">i", 0), "a frame of 0 bytes"),
        (struct.pack(">i", 7) + bytes(7), "a frame of 7 bytes"),
        (bytes(100), "a frame of 0 bytes"),
        (b"\xff" * 100, "a frame of -1 bytes"),
        (framed(header(9999, 0) + bytes(20)), "API 9999 is not served"),
        (framed(header(-1, 0) + bytes(20)), "API -1 is not served"),
        (framed(header(62, 0) + bytes(20)), "API 62 is not served"),
        (framed(header(3, 99) + bytes(20)), "Metadata v99 is not served"),
        (framed(header(0, 2) + bytes(20)), "Produce v2 is not served"),
        (framed(header(1, -1) + bytes(20)), "Fetch v-1 is not served"),
        (framed(struct.pack(">hhi", 3, 1, 1)), "request header"),
        (framed(struct.pack(">hhih", 3, 1, 1, 5000) + b"ab"), "client id is longer"),
        (framed(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe"), "request header"),
        (framed(header(3, 1) + struct.pack(">i", 2**31 - 1)), ""),
        (framed(header(3, 1) + struct.pack(">ih", 1, 500) + b"short"), ""),
        (framed(header(3, 1)), ""),
        (framed(header(3, 9) + b"\x00" + b"\xff" * 30), ""),
        (framed(header(0, 9) + b"\x00" + b"\xff" * 30), ""),
    ],
)
def test_what_cannot_be_understood_closes_the_connection_and_is_logged(
    broker: ottla.Broker, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    with session_with(broker) as bystander:
        create(bystander, "bystander")
        assert_closed_by(broker, data)
        assert eventually(lambda: connection_count(broker) == 1)
        assert fill(bystander, "bystander", b"v") == [0]
    closed = [record for record in caplog.records if "closed: " in record.getMessage()]
    assert len(closed) == 1
    message = closed[0].getMessage()
    assert message.startswith("connection from 127.0.0.1:")
    assert reason in message
    assert closed[0].levelno == logging.WARNING
    assert errors_of_ours(caplog) == []


def test_trailing_bytes_do_not_hurt(broker: ottla.Broker) -> None:
    """A request of a newer client may be longer than we know; what we know of it is served."""
    with session_with(broker) as connection:
        request = frame_request(MetadataRequest(topics=[]), 1, 4, None)[4:]
        connection.socket.sendall(framed(request + b"more"))
        try:
            frame = connection.receive_frame()
        except ConnectionError:
            return  # closing is as good: there is no harm done
        assert struct.unpack_from(">i", frame) == (4,)


def test_what_came_before_the_garbage_is_answered(broker: ottla.Broker, topic: str) -> None:
    with session_with(broker) as connection:
        create(connection, topic)
        good = frame_request(produce_request(topic, batch_of(b"v")), 9, 3, None)
        connection.socket.sendall(good + b"\xff" * 50)
        assert struct.unpack_from(">i", connection.receive_frame()) == (3,)
        with pytest.raises(ConnectionError):
            connection.receive_frame()
    with session_with(broker) as connection:
        assert read_values(connection, topic) == [b"v"]


def test_garbage_behind_a_parked_fetch_ends_the_wait(broker: ottla.Broker, topic: str) -> None:
    with session_with(broker) as connection:
        create(connection, topic)
        connection.send(fetch_request(topic, 0, max_wait_ms=20_000), 12)
        connection.socket.sendall(b"\xff" * 50)
        with pytest.raises(ConnectionError):
            connection.receive_frame()
    assert eventually(lambda: connection_count(broker) == 0)


def test_random_bytes_and_damaged_requests_do_no_harm(
    broker: ottla.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(4)
    bodies = [
        frame_request(MetadataRequest(topics=[MetadataRequestTopic(name="x")]), 9, 1, "c")[4:],
        frame_request(produce_request("x", batch_of(b"v")), 9, 1, "c")[4:],
        frame_request(fetch_request("x", 0), 12, 1, "c")[4:],
    ]
    with session_with(broker) as bystander:
        create(bystander, "x")
        for _ in range(300):
            if chance.random() < 0.3:
                body = header(chance.choice(sorted(SERVED)), chance.randrange(14))
                body += chance.randbytes(chance.randrange(60))
            else:
                damaged = bytearray(chance.choice(bodies))
                for _ in range(chance.randrange(1, 6)):
                    damaged[chance.randrange(8, len(damaged))] = chance.randrange(256)
                body = bytes(damaged[: chance.randrange(8, len(damaged) + 1)])
            with RawConnection(broker.bootstrap_servers) as connection:
                connection.socket.sendall(framed(body))
        assert eventually(lambda: connection_count(broker) == 1)
        fill(bystander, "x", b"alive")
    assert errors_of_ours(caplog) == []


def test_an_answer_is_not_held_back_by_a_neighbours_damage(
    broker: ottla.Broker, topic: str
) -> None:
    damaged = bytearray(batch_of(b"v"))
    damaged[-1] ^= 1
    with session_with(broker) as connection:
        create(connection, topic)
        connection.send(produce_request(topic, bytes(damaged)), 9)
        connection.send(produce_request(topic, batch_of(b"v")), 9)
        frames = [connection.receive_frame() for _ in range(2)]
        assert [struct.unpack_from(">i", frame)[0] for frame in frames] == [1, 2]
        assert read_values(connection, topic) == [b"v"]
        assert fill(connection, topic, b"v") == [1]


def test_claimed_sizes_and_garbage_cost_no_memory(
    serve_process: ServeProcess, event_loop_kind: str
) -> None:
    serve_process.loop_kind = event_loop_kind
    serve_process.start()
    with RawConnection(serve_process.address) as bystander:
        create(bystander, "x")
        fill(bystander, "x", b"v")
        before = serve_process.resident_bytes
        # Within the limit, so that the broker has to wait for the rest.
        claimers = [RawConnection(serve_process.address) for _ in range(30)]
        for each in claimers:
            each.socket.sendall(struct.pack(">i", 100_000_000) + b"\x00" * 100)
        for data in (TLS_HELLO, HTTP_GET, struct.pack(">i", 2**31 - 1), bytes(2000)) * 25:
            with RawConnection(serve_process.address) as connection:
                connection.socket.sendall(data)
        fill(bystander, "x", b"v")
        assert serve_process.resident_bytes - before < 20 << 20
        for each in claimers:
            each.close()
    assert serve_process.stop() == 0


def test_an_error_of_ours_closes_only_that_connection(
    broker: ottla.Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_with(broker) as bystander:
        create(bystander, "x")

        def explode(*_: object) -> None:
            raise RuntimeError("a bug of ours")

        metadata = SERVED[3]
        monkeypatch.setitem(SERVED, 3, metadata._replace(handle=explode))
        with session_with(broker) as unlucky:
            unlucky.send(MetadataRequest(topics=[]), 9)
            with pytest.raises(ConnectionError):
                unlucky.receive_frame()
        assert fill(bystander, "x", b"v") == [0]
    assert "this is a bug" in caplog.text
    assert "a bug of ours" in caplog.text
