"""A client that does not read costs bounded memory, and costs the others nothing."""

from __future__ import annotations

import sys
import time
from statistics import median

import pytest
from tests.broker.processes import ServeProcess
from tests.broker.requests import create, eventually, fetch_request, fill, values_in

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.framing import frame_request
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")

BATCH_BYTES = 1_000_000
BATCHES = 20
FETCHES = 300
SLOW_READERS = 16
ALLOWED_BYTES = (
    120 << 20
)  # an answer or two of 20 MB each, in copies; without a limit it would be 6 GB
ENGINES = {"local": None, "memory": ["--ephemeral"]}


@pytest.fixture(params=sorted(ENGINES))
def serving(
    request: pytest.FixtureRequest, serve_process: ServeProcess, event_loop_kind: str
) -> ServeProcess:
    """A broker with 20 MB in the topic `full`, and nothing in the topic `empty`."""
    serve_process.loop_kind = event_loop_kind
    serve_process.start(engine=ENGINES[request.param])
    with RawConnection(serve_process.address) as connection:
        create(connection, "full")
        create(connection, "empty")
        for number in range(BATCHES):
            fill(connection, "full", bytes([number]) * BATCH_BYTES)
    return serve_process


def pipeline(serving: ServeProcess, *requests: FetchRequest) -> RawConnection:
    """A client that has sent all this and reads nothing."""
    connection = RawConnection(serving.address)
    for number, request in enumerate(requests):
        connection.socket.sendall(frame_request(request, 12, number, None))
    return connection


def assert_others_are_served(serving: ServeProcess, before_bytes: int) -> None:
    """For a second, other clients get their answers at once, and the memory stays where it is."""
    deadline = time.monotonic() + 1.0
    waits = []
    with RawConnection(serving.address) as other:
        while time.monotonic() < deadline:
            began = time.monotonic()
            other.call(MetadataRequest(topics=[]), MetadataResponse, 9)
            fill(other, "empty", b"v")
            waits.append(time.monotonic() - began)
            assert serving.resident_bytes - before_bytes < ALLOWED_BYTES
            time.sleep(0.02)
    # One may be held up by the machine; a broker that others keep busy is slow most of the time.
    assert median(waits) < 1.0


def assert_goes_on(connection: RawConnection, skipped: int, count: int) -> None:
    """When the client reads at last, its answers are there and whole."""
    for _ in range(skipped):
        connection.receive(FetchResponse, 12)
    for _ in range(count):
        found = connection.receive(FetchResponse, 12).responses[0].partitions[0]
        assert found.error_code == ErrorCode.NONE
        values = values_in(found)
        assert values[0] == bytes(BATCH_BYTES)
        # The memory engine copies, and so gives at most 4 MB at a time.
        assert 4 <= len(values) <= BATCHES
    connection.close()


def test_fetches_that_nobody_reads(serving: ServeProcess) -> None:
    before = serving.resident_bytes
    slow = pipeline(serving, *[fetch_request("full", 0)] * FETCHES)
    assert_others_are_served(serving, before)
    assert_goes_on(slow, 0, 4)
    assert serving.resident_bytes - before < ALLOWED_BYTES


def test_large_answers_behind_a_parked_fetch(serving: ServeProcess) -> None:
    before = serving.resident_bytes
    parked = fetch_request("empty", 0, max_wait_ms=1200, min_bytes=1 << 30)
    slow = pipeline(serving, parked, *[fetch_request("full", 0)] * FETCHES)
    assert_others_are_served(serving, before)
    assert_goes_on(slow, 1, 3)
    assert serving.resident_bytes - before < ALLOWED_BYTES


def test_parked_fetches_that_all_come_due_at_once(serving: ServeProcess) -> None:
    before = serving.resident_bytes
    waiting = fetch_request("full", 0, max_wait_ms=300, min_bytes=40 << 20)
    slow = pipeline(serving, *[waiting] * FETCHES)
    assert_others_are_served(serving, before)
    assert_goes_on(slow, 0, 3)
    assert serving.resident_bytes - before < ALLOWED_BYTES


@pytest.mark.parametrize("event_loop_kind", ["uvloop", "asyncio"], indirect=True)
def test_many_slow_readers_do_not_cost_a_copy_of_their_answer_each(
    serve_process: ServeProcess, event_loop_kind: str
) -> None:
    serve_process.loop_kind = event_loop_kind
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        create(connection, "full")
        create(connection, "empty")
        for number in range(BATCHES):
            fill(connection, "full", bytes([number]) * BATCH_BYTES)
    before = serve_process.resident_bytes
    slow = [pipeline(serve_process, fetch_request("full", 0)) for _ in range(SLOW_READERS)]
    with RawConnection(serve_process.address) as other:  # every fetch before it has been answered
        fill(other, "empty", b"v")
    assert serve_process.resident_bytes - before < SLOW_READERS << 20
    for each in slow:
        assert_goes_on(each, 0, 1)


def test_slow_readers_that_leave_are_forgotten(serving: ServeProcess) -> None:
    def come_and_go() -> None:
        slow = [pipeline(serving, *[fetch_request("full", 0)] * 20) for _ in range(4)]
        time.sleep(0.3)
        for each in slow:
            each.close()
        with RawConnection(serving.address) as connection:
            fill(connection, "empty", b"v")

    # The allocator may keep what the first ones used, but the next ones use it again.
    come_and_go()
    before = serving.resident_bytes
    for _ in range(3):
        come_and_go()
    assert eventually(lambda: serving.resident_bytes - before < ALLOWED_BYTES)
    assert serving.stop() == 0


def test_a_slow_reader_does_not_hold_up_the_stop(serving: ServeProcess) -> None:
    slow = pipeline(serving, *[fetch_request("full", 0)] * 50)
    time.sleep(0.2)
    began = time.monotonic()
    assert serving.stop() == 0
    assert time.monotonic() - began < 20
    slow.close()
