"""Limits on connections, idle time, frame sizes and memory."""

from __future__ import annotations

import logging
import struct
import time

import pytest
from tests.broker.conftest import Starter
from tests.broker.processes import ServeProcess
from tests.broker.requests import (
    BROKER,
    batch_of,
    connection_count,
    create,
    delete_records,
    eventually,
    fetch,
    fetch_request,
    fill,
    produce,
    produce_request,
    read_values,
    session_with,
    set_options,
    values_in,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import split_batches
from ottla.wire.framing import frame_request
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.usefixtures("event_loop_kind")


def is_served(connection: RawConnection) -> bool:
    try:
        connection.call(MetadataRequest(topics=[]), MetadataResponse, 9)
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("option", ["max_connections", "max_connections_per_ip"])
def test_connections_above_the_limit_are_refused(
    start: Starter, caplog: pytest.LogCaptureFixture, option: str
) -> None:
    broker = start(**{option: 2})
    with session_with(broker) as first, session_with(broker) as second:
        assert is_served(first)
        assert is_served(second)
        with session_with(broker) as third:
            assert not is_served(third)
        assert f"refused: {option.replace('_', '.')}=2 is reached" in caplog.text
        assert is_served(first)
        assert connection_count(broker) == 2
        second.close()
        assert eventually(lambda: connection_count(broker) == 1)
        with session_with(broker) as late:
            assert is_served(late)


def test_the_limit_of_connections_can_be_altered(start: Starter) -> None:
    broker = start()
    with session_with(broker) as first:
        assert set_options(first, "1", {"max.connections": "1"}, BROKER) == ErrorCode.NONE
        with session_with(broker) as second:
            assert not is_served(second)
        assert set_options(first, "1", {"max.connections": "2"}, BROKER) == ErrorCode.NONE
        with session_with(broker) as second:
            assert is_served(second)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(
    start: Starter, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = start(connections_max_idle_ms=2000)
    with session_with(broker) as idle, session_with(broker) as busy:
        assert is_served(idle)
        began = time.monotonic()
        while connection_count(broker) > 1:
            assert is_served(busy)
            assert time.monotonic() - began < 30
            time.sleep(0.02)
        assert time.monotonic() - began > 1.5
        with pytest.raises(ConnectionError):
            idle.receive_frame()
        assert "idle for connections.max.idle.ms=2000" in caplog.text


def test_who_waits_for_an_answer_is_not_idle(start: Starter, topic: str) -> None:
    broker = start(connections_max_idle_ms=1000)
    with session_with(broker) as parked:
        create(parked, topic)
        parked.send(fetch_request(topic, 0, max_wait_ms=1500), 12)
        assert parked.receive(FetchResponse, 12).error_code == ErrorCode.NONE
        assert is_served(parked)


@pytest.mark.parametrize("idle_ms", [-1, 600_000])
def test_without_a_short_limit_idle_connections_stay(start: Starter, idle_ms: int) -> None:
    with session_with(start(connections_max_idle_ms=idle_ms)) as idle:
        time.sleep(0.2)
        assert is_served(idle)


def test_the_largest_request_is_a_limit(
    start: Starter, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(socket_request_max_bytes=10_000)
    with session_with(broker) as connection:
        create(connection, topic)
        connection.socket.sendall(_produce_frame(topic, 10_000))
        connection.receive_frame()
        connection.socket.sendall(_produce_frame(topic, 10_001))
        with pytest.raises(ConnectionError):
            connection.receive_frame()
    assert "is outside of 8..10000" in caplog.text
    with session_with(broker) as connection:
        assert len(read_values(connection, topic)) == 1


def _produce_frame(topic: str, size_bytes: int) -> bytes:
    """A request of exactly this size."""
    for value_bytes in range(size_bytes - 500, size_bytes):
        frame = frame_request(produce_request(topic, batch_of(b"x" * value_bytes)), 9, 0, None)
        if len(frame) == 4 + size_bytes:
            return frame
    raise AssertionError("no value makes a request of this size")


def test_the_size_is_refused_before_the_rest_is_read(start: Starter) -> None:
    broker = start(socket_request_max_bytes=1000)
    with session_with(broker) as connection:
        connection.socket.sendall(struct.pack(">i", 1001))
        with pytest.raises(ConnectionError):
            connection.receive_frame()
    assert eventually(lambda: connection_count(broker) == 0)


def test_a_broker_in_memory_refuses_what_does_not_fit_and_still_reads(
    serve_process: ServeProcess, event_loop_kind: str
) -> None:
    serve_process.loop_kind = event_loop_kind
    limit = "ottla.ephemeral.max.bytes=1000000"
    serve_process.start("--set", limit, engine=["--ephemeral"])
    with RawConnection(serve_process.address) as connection:
        create(connection, "t", config={"segment.bytes": "200000"})
        value = b"x" * 50_000
        errors = [produce(connection, "t", batch_of(value)).error_code for _ in range(30)]
        taken = errors.count(ErrorCode.NONE)
        assert 10 < taken < 20
        assert errors == [ErrorCode.NONE] * taken + [ErrorCode.KAFKA_STORAGE_ERROR] * (30 - taken)
        assert read_values(connection, "t") == [value] * taken
        # A full store is no reason to lead anew, which would cost a replay and fence every reader.
        found = fetch(connection, "t", taken - 1)
        ((_, header),) = split_batches(bytes(found.records or b""))
        epoch = header.partition_leader_epoch
        current = fetch(connection, "t", taken, current_leader_epoch=epoch)
        assert current.error_code == ErrorCode.NONE
        # Deleting makes room.
        delete_records(connection, "t", taken)
        assert produce(connection, "t", batch_of(value)).base_offset == taken
        assert values_in(fetch(connection, "t", taken)) == [value]
        fill(connection, "t", b"small")
    assert "ottla.ephemeral.max.bytes" in serve_process.log
    assert serve_process.stop() == 0


def test_the_limits_of_one_broker_are_not_those_of_another(start: Starter) -> None:
    first = start(max_connections=1)
    with ottla.Broker() as other:
        with session_with(first) as connection:
            assert is_served(connection)
        with session_with(other) as one, session_with(other) as two:
            assert is_served(one)
            assert is_served(two)
