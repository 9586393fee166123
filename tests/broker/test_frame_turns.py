"""Frames that arrive together: they share the loop's time, and looking at the clock costs them little."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from tests.broker.listeners import node_without_quotas, plaintext_listener

from ottla.broker.loop.loop_share import TURN_SECONDS, UNTIMED_FRAMES, LoopShare
from ottla.broker.network.connection import BYTES_PER_CHECK, Connection, Host, Traffic
from ottla.broker.network.receive_buffers import Buffers
from ottla.broker.network.unfinished_frames import UnfinishedFrames
from ottla.broker.requests.api import Api
from ottla.broker.requests.request import NO_REPLY, NoReply, RequestContext
from ottla.wire.framing import frame_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

API_KEY = 18
VERSION = 3
FRAME = frame_request(
    ApiVersionsRequest(client_software_name="test", client_software_version="1"), VERSION, 1, "c"
)
FRAMES_PER_CHECK = BYTES_PER_CHECK // len(FRAME) + 1
FRAME_COUNT = 20 * FRAMES_PER_CHECK


class Silent(asyncio.Transport):
    """A client that takes everything."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Server:
    """A host whose requests take as long as they are told to, and have no answer."""

    def __init__(self, seconds_per_frame: float, connection_count: int = 1) -> None:
        self.now = 0.0
        self.clock_reads = 0
        self.handled = 0
        self._seconds_per_frame = seconds_per_frame
        api: Api[Any, Any] = Api(
            key=API_KEY,
            name="ApiVersions",
            request=ApiVersionsRequest,
            response=ApiVersionsResponse,
            first_advertised=0,
            first_version=0,
            last_version=VERSION,
            flexible_since=VERSION,
            handle=self._handle,
        )
        host = SimpleNamespace(
            node=node_without_quotas(),
            apis={API_KEY: api},
            receive_buffer=memoryview(bytearray(1 << 20)),
            buffers=Buffers(),
            share=LoopShare(self._read_clock),
            unfinished=UnfinishedFrames(1 << 20),
            traffic=Traffic(),
            max_frame_bytes=1 << 20,
            admit=lambda connection: None,
            forget=lambda connection: None,
            now=lambda: self.now,
            note_receive=lambda: self.now,
        )
        listener = plaintext_listener()
        self._connections = [
            Connection(cast(Host, host), listener) for _ in range(connection_count)
        ]
        for connection in self._connections:
            connection.connection_made(Silent())

    def _read_clock(self) -> float:
        self.clock_reads += 1
        return self.now

    def _handle(self, node: object, request: Any, context: RequestContext) -> NoReply:
        self.handled += 1
        self.now += self._seconds_per_frame
        return NO_REPLY

    def receive(self, data: bytes) -> None:
        """Has every connection receive the same."""
        for connection in self._connections:
            connection.get_buffer(-1)[: len(data)] = data
            connection.buffer_updated(len(data))


def test_small_frames_share_a_look_at_the_clock() -> None:
    async def serve() -> None:
        server = Server(seconds_per_frame=0.0)
        server.receive(FRAME * FRAME_COUNT)
        assert server.handled == FRAME_COUNT
        assert server.clock_reads <= FRAME_COUNT / FRAMES_PER_CHECK + 2

    asyncio.run(serve())


def test_frames_that_take_long_leave_the_loop_to_others() -> None:
    async def serve() -> None:
        server = Server(seconds_per_frame=TURN_SECONDS)
        handled = 0
        server.receive(FRAME * FRAME_COUNT)
        while server.handled < FRAME_COUNT:
            assert handled < server.handled <= handled + FRAMES_PER_CHECK + 2
            handled = server.handled
            while server.handled == handled:
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(serve(), 10))


def test_a_connection_that_is_alone_has_the_clock_not_read() -> None:
    async def serve() -> None:
        server = Server(seconds_per_frame=0.0)
        for _ in range(5 * UNTIMED_FRAMES):
            server.receive(FRAME)
            await asyncio.sleep(0)
        assert server.handled == 5 * UNTIMED_FRAMES
        assert server.clock_reads == 0

    asyncio.run(serve())


def test_first_frames_of_many_connections_leave_the_loop_to_others() -> None:
    connection_count = 20 * UNTIMED_FRAMES

    async def serve() -> None:
        server = Server(TURN_SECONDS, connection_count)
        server.receive(FRAME)
        handled = server.handled
        assert handled <= UNTIMED_FRAMES + 2
        while server.handled < connection_count:
            await asyncio.sleep(0)
            assert server.handled <= handled + 2
            handled = server.handled
        for _ in range(3):
            await asyncio.sleep(0)
        assert server.handled == connection_count

    asyncio.run(asyncio.wait_for(serve(), 10))
