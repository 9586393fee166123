"""Frames that have not arrived whole share a bound, and whoever holds it up is let go."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    batch_of,
    connection_count,
    create,
    eventually,
    on_loop,
    produce,
    session_with,
)

from ottla.broker.network import unfinished_frames
from ottla.broker.network.unfinished_frames import (
    LEAST_BOUND_BYTES,
    UNCOUNTED_BYTES,
    UnfinishedFrames,
)
from ottla.model import Endpoint

HALF = LEAST_BOUND_BYTES // 2


class Receiving:
    """A connection that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.received_bytes = 0
        self.waits_for_broker = False

    def go_on_receiving(self) -> None:
        self.told.append("go on")

    def give_up_receiving(self, reason: str) -> None:
        self.told.append(reason)


def test_who_needs_more_than_there_is_waits_for_the_others() -> None:
    async def crowd() -> None:
        frames = UnfinishedFrames(1 << 20)
        first, second, third = Receiving(), Receiving(), Receiving()
        assert frames.claim(first, HALF)
        assert frames.claim(second, HALF)
        assert frames.claim(third, UNCOUNTED_BYTES)
        was_short = frames.is_short
        assert not frames.claim(third, UNCOUNTED_BYTES + 1)
        assert (was_short, frames.is_short) == (False, True)
        assert frames.total_bytes == LEAST_BOUND_BYTES
        frames.release(second)
        assert third.told == ["go on"]
        assert frames.total_bytes == HALF + UNCOUNTED_BYTES + 1
        frames.release(first)
        frames.release(third)
        frames.release(third)
        assert frames.total_bytes == 0

    asyncio.run(crowd())


def test_the_oldest_frame_never_waits() -> None:
    async def crowd() -> None:
        frames = UnfinishedFrames(1 << 20)
        first, second = Receiving(), Receiving()
        assert frames.claim(first, HALF)
        assert frames.claim(second, HALF)
        assert not frames.claim(second, HALF + 1)
        assert frames.claim(first, 3 * HALF)
        frames.release(first)
        assert second.told == ["go on"]

    asyncio.run(crowd())


def test_the_bound_has_room_for_two_of_the_largest_frames() -> None:
    async def two() -> None:
        frames = UnfinishedFrames(LEAST_BOUND_BYTES)
        assert frames.claim(Receiving(), LEAST_BOUND_BYTES)
        assert frames.claim(Receiving(), LEAST_BOUND_BYTES)
        assert not frames.claim(Receiving(), UNCOUNTED_BYTES + 1)

    asyncio.run(two())


def test_the_smallest_that_waits_is_first() -> None:
    async def crowd() -> None:
        frames = UnfinishedFrames(1 << 20)
        first, second, large, small = Receiving(), Receiving(), Receiving(), Receiving()
        assert frames.claim(first, HALF)
        assert frames.claim(second, HALF)
        assert not frames.claim(large, HALF)
        assert not frames.claim(small, 1 << 20)
        frames.release(second)
        assert (large.told, small.told) == ([], ["go on"])
        frames.release(small)
        assert large.told == ["go on"]

    asyncio.run(crowd())


def test_whole_frames_that_wait_for_their_turn_count() -> None:
    async def crowd() -> None:
        frames = UnfinishedFrames(1 << 20)
        first, second = Receiving(), Receiving()
        assert frames.claim(first, UNCOUNTED_BYTES + 1)
        with frames.whole_frame(LEAST_BOUND_BYTES):
            assert not frames.claim(second, HALF)
        assert second.told == ["go on"]

    asyncio.run(crowd())


def test_a_frame_that_waits_for_the_broker_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unfinished_frames, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(unfinished_frames, "IDLE_SECONDS", 0.05)

    async def crowd() -> None:
        frames = UnfinishedFrames(1 << 20)
        kept, waiting = Receiving(), Receiving()
        kept.waits_for_broker = True
        assert frames.claim(kept, LEAST_BOUND_BYTES)
        assert not frames.claim(waiting, HALF)
        await asyncio.sleep(0.3)
        assert kept.told == []
        kept.waits_for_broker = False
        while not kept.told:
            await asyncio.sleep(0.01)

    asyncio.run(crowd())


@pytest.mark.parametrize("fault", ["it makes no progress", "it takes too long"])
def test_who_holds_others_up_is_given_up(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    idle, patience = (0.05, 60.0) if fault == "it makes no progress" else (60.0, 0.05)
    monkeypatch.setattr(unfinished_frames, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(unfinished_frames, "IDLE_SECONDS", idle)
    monkeypatch.setattr(unfinished_frames, "PATIENCE_SECONDS", patience)

    async def crowd() -> None:
        frames = UnfinishedFrames(1 << 20)
        slow, waiting = Receiving(), Receiving()
        assert frames.claim(slow, LEAST_BOUND_BYTES)
        await asyncio.sleep(0.1)
        assert slow.told == []  # nobody wanted its memory
        assert not frames.claim(waiting, HALF)
        while not slow.told:
            slow.received_bytes += fault == "it takes too long"
            await asyncio.sleep(0.01)
        assert "while others waited" in slow.told[0]
        assert waiting.told == ["go on"]

    asyncio.run(crowd())


def test_unfinished_frames_of_many_connections_are_bounded_and_nobody_else_waits(
    start: Starter, monkeypatch: pytest.MonkeyPatch, event_loop_kind: str
) -> None:
    monkeypatch.setattr(unfinished_frames, "LEAST_BOUND_BYTES", 4 << 20)
    monkeypatch.setattr(unfinished_frames, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(unfinished_frames, "IDLE_SECONDS", 0.2)
    broker = start(options={"socket.request.max.bytes": str(2 << 20)})
    endpoint = Endpoint.parse(broker.bootstrap_servers)
    hostile: dict[socket.socket, int] = {}
    try:
        for _ in range(12):
            one = socket.create_connection((endpoint.host, endpoint.port), 10)
            one.setblocking(False)
            hostile[one] = one.send((2 << 20).to_bytes(4, "big"))
        for _ in range(100):
            for one, sent in hostile.items():
                with suppress(BlockingIOError, ConnectionError):
                    hostile[one] += one.send(bytes(min(64 << 10, (2 << 20) - sent)))
        held = on_loop(broker, lambda running: running.server.unfinished.total_bytes)
        assert held <= 6 << 20  # the oldest frame may take what it needs
        with session_with(broker) as connection:
            create(connection, "t")
            assert produce(connection, "t", batch_of(b"x")).error_code == 0
            # A large frame of somebody who means it is served as well.
            assert produce(connection, "t", batch_of(bytes(1_000_000))).error_code == 0
    finally:
        for one in hostile:
            one.close()
    assert eventually(lambda: connection_count(broker) == 0)
    assert on_loop(broker, lambda running: running.server.unfinished.total_bytes) == 0
