"""Large frames: a connection that sends one after the other receives them where they are decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.broker.listeners import node_without_quotas, plaintext_listener
from tests.broker.test_frame_turns import Silent

from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.network.connection import HEAD_RECEIVE_BYTES, Connection, Host, Traffic
from ottla.broker.network.frame_buffer import IN_PLACE_BYTES
from ottla.broker.network.receive_buffers import Buffers
from ottla.broker.network.unfinished_frames import UnfinishedFrames
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import NO_REPLY, NoReply, RequestContext
from ottla.wire.framing import SIZE_BYTES, frame_request
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

SHARED_BYTES = 1 << 20
VERSION = 9


class Receiver:
    """A connection whose requests are kept, and that counts the bytes that it received into the shared buffer."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.shared_bytes = 0
        self.host = SimpleNamespace(
            node=node_without_quotas(),
            apis={0: serve(ProduceRequest, ProduceResponse, self._handle)},
            receive_buffer=memoryview(bytearray(SHARED_BYTES)),
            buffers=Buffers(),
            share=LoopShare(lambda: 0.0),
            unfinished=UnfinishedFrames(8 << 20),
            traffic=Traffic(),
            max_frame_bytes=8 << 20,
            admit=lambda connection: None,
            forget=lambda connection: None,
            now=lambda: 0.0,
        )
        self.connection = Connection(cast(Host, self.host), plaintext_listener())
        self.connection.connection_made(Silent())

    def _handle(self, node: Any, request: ProduceRequest, context: RequestContext) -> NoReply:
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        self.requests.append(bytes(records))
        return NO_REPLY

    def receive(self, data: bytes, most_bytes: int = SHARED_BYTES) -> None:
        """As a transport does; a socket has at most `most_bytes` at a time."""
        position = 0
        while position < len(data):
            room = self.connection.get_buffer(-1)
            piece = data[position : position + min(len(room), most_bytes)]
            room[: len(piece)] = piece
            if room.obj is self.host.receive_buffer.obj:
                self.shared_bytes += len(piece)
            self.connection.buffer_updated(len(piece))
            position += len(piece)


def records_of(number: int, size_bytes: int) -> bytes:
    return number.to_bytes(4, "big") * (size_bytes // 4)


def frame_of(records: bytes) -> bytes:
    data = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name="t", partition_data=[data])]
    return frame_request(
        ProduceRequest(acks=0, timeout_ms=1, topic_data=topics), VERSION, 1, "client"
    )


def on_a_loop(scenario: Callable[[], None]) -> None:
    async def run() -> None:
        scenario()

    asyncio.run(run())


@pytest.mark.parametrize("most_bytes", [SHARED_BYTES, 65_536, 4_097])
def test_only_the_head_of_further_large_frames_is_received_elsewhere(most_bytes: int) -> None:
    sent = [records_of(number, 900_000) for number in range(6)]
    frames = [frame_of(records) for records in sent]

    def scenario() -> None:
        receiver = Receiver()
        receiver.receive(frames[0] + frames[1], most_bytes)
        before = receiver.shared_bytes
        receiver.receive(b"".join(frames[2:]), most_bytes)
        assert receiver.requests == sent
        assert receiver.shared_bytes - before <= HEAD_RECEIVE_BYTES * len(frames[2:])

    on_a_loop(scenario)


def test_small_frames_after_large_ones_fill_the_shared_buffer_again() -> None:
    large, small = records_of(1, IN_PLACE_BYTES), records_of(2, 1_000)
    frames = frame_of(large) * 2 + frame_of(small)

    def scenario() -> None:
        receiver = Receiver()
        receiver.receive(frames, 300_000)
        assert receiver.requests == [large, large, small]
        assert len(receiver.connection.get_buffer(-1)) == SHARED_BYTES

    on_a_loop(scenario)


def test_a_frame_below_the_limit_is_expected_in_the_shared_buffer() -> None:
    frame = frame_of(records_of(1, IN_PLACE_BYTES // 2))

    def scenario() -> None:
        receiver = Receiver()
        receiver.receive(frame * 4, 100_000)
        assert len(receiver.requests) == 4
        assert len(receiver.connection.get_buffer(-1)) == SHARED_BYTES

    on_a_loop(scenario)


def test_the_announced_size_alone_takes_no_memory() -> None:
    """A client that has sent a large frame, and then only the head of another, has no more room than before."""
    frame = frame_of(records_of(1, 900_000))
    huge = (8 << 20).to_bytes(SIZE_BYTES, "big") + frame[SIZE_BYTES:5_000]

    def scenario() -> None:
        receiver = Receiver()
        receiver.receive(frame[:500_000])
        receiver.receive(frame[500_000:])
        receiver.receive(huge)
        assert len(receiver.connection.get_buffer(-1)) <= IN_PLACE_BYTES
        assert receiver.host.unfinished.total_bytes <= IN_PLACE_BYTES

    on_a_loop(scenario)
