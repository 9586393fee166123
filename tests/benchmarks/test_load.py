"""The load generator counts what the broker has, no more and no less."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator

import pytest
from benchmarks.frames import (
    RefusedError,
    append_first,
    batch_of,
    create_topic,
    end_offsets,
    fetch_frame,
    fetch_once,
    produce_frame,
)
from benchmarks.load import Burst, Target, at_rate, drive, one_by_one

import ottla
from ottla.client.raw import RawConnection

SECONDS = 0.05


@pytest.fixture
def bootstrap_server() -> Iterator[str]:
    with ottla.Broker(num_partitions=4) as broker:
        create_topic(broker.bootstrap_servers, "t")
        yield broker.bootstrap_servers


@pytest.mark.parametrize("connection_count", [1, 3])
@pytest.mark.parametrize(("burst", "in_flight"), [(1, 1), (50, 2)])
def test_every_request_that_is_counted_was_appended(
    bootstrap_server: str, burst: int, in_flight: int, connection_count: int
) -> None:
    frame = produce_frame("t", 3, 100)
    answer_bytes = append_first(bootstrap_server, frame)
    target = Target(bootstrap_server, [Burst(frame * burst, burst, answer_bytes * burst)])
    sent = drive(
        [target],
        seconds=SECONDS,
        bursts_in_flight=in_flight,
        connection_count=connection_count,
    )
    assert sent.requests >= burst * in_flight * connection_count
    assert end_offsets(bootstrap_server, "t", 1) == [(sent.requests + 1) * 3]


def test_answers_of_different_lengths_are_told_apart(bootstrap_server: str) -> None:
    sizes = [10, 500, 30_000]
    for partition, size in enumerate(sizes):
        append_first(bootstrap_server, produce_frame("t", 1, size, partition))
    bursts = []
    with RawConnection(bootstrap_server) as connection:
        for partition, size in enumerate(sizes):
            batch_bytes = len(batch_of(1, size))
            frame = fetch_frame("t", partition, 0, batch_bytes)
            bursts.append(Burst(frame, 1, fetch_once(connection, frame, batch_bytes)))
    assert len({burst.answer_bytes for burst in bursts}) == 3
    # Each of them twice, however slow the first answer is.
    sent = drive([Target(bootstrap_server, bursts)], seconds=SECONDS, bursts_in_flight=6)
    assert sent.requests >= 6


def test_a_fetch_that_finds_other_bytes_than_expected_is_an_error(bootstrap_server: str) -> None:
    append_first(bootstrap_server, produce_frame("t", 1, 100))
    with RawConnection(bootstrap_server) as connection, pytest.raises(RefusedError, match="bytes"):
        fetch_once(connection, fetch_frame("t", 0, 0, 1000), 1)


def test_a_latency_is_kept_for_every_request(bootstrap_server: str) -> None:
    frame = produce_frame("t", 1, 100)
    burst = Burst(frame, 1, append_first(bootstrap_server, frame))
    closed = one_by_one(bootstrap_server, burst, seconds=SECONDS)
    paced = at_rate(bootstrap_server, burst, seconds=SECONDS, per_second=400)
    assert len(paced) == 20
    assert min(closed) > 0
    assert min(paced) > 0
    assert end_offsets(bootstrap_server, "t", 1) == [1 + len(closed) + len(paced)]


def test_a_stall_counts_for_every_request_that_was_due_in_it() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    stall_seconds, per_second, count = 0.2, 100, 20

    def answer_all_at_the_end() -> None:
        connection, _ = listener.accept()
        with connection:
            received = 0
            while received < count:
                received += len(connection.recv(1024))
            connection.sendall(b"a" * count)
            connection.recv(1)

    answering = threading.Thread(target=answer_all_at_the_end)
    answering.start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    latencies = at_rate(address, Burst(b"r", 1, 1), seconds=stall_seconds, per_second=per_second)
    answering.join()
    listener.close()
    # The first waited for all the others, the last for nobody; each was due 10 ms after the one before.
    assert latencies[0] >= 0.18
    assert all(a - b == pytest.approx(1 / per_second) for a, b in itertools.pairwise(latencies))


def test_a_broker_that_goes_away_is_an_error(bootstrap_server: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        connection, _ = listener.accept()
        connection.recv(1)
        connection.close()

    hanging_up = threading.Thread(target=hang_up)
    hanging_up.start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ConnectionResetError):
        one_by_one(address, Burst(b"r", 1, 1), seconds=1.0)
    hanging_up.join()
    listener.close()
