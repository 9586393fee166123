"""The answering end of a link, played by a test: it reads requests when it is told to, and answers as told."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from ottla.wire.compile import decode_message
from ottla.wire.framing import frame_response, read_request_header
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSION = 2
LONG_SECONDS = 20.0


def numbered(number: int, topics: int = 0) -> WriteTxnMarkersRequest:
    """A request that is told apart by its producer id."""
    marker = WritableTxnMarker(
        producer_id=number,
        producer_epoch=0,
        transaction_result=True,
        topics=[],
        coordinator_epoch=0,
        transaction_version=2,
    )
    return WriteTxnMarkersRequest(markers=[marker] * (topics + 1))


def answer_to(number: int) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=number, topics=[])])


def number_in(message: Any) -> int:
    """The number of a request, or of its response."""
    return int(message.markers[0].producer_id)


class ScriptedPeer:
    """Connections to a peer; each has a number, from 0."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.refusals = 0  # that are still to come

    async def connect(self, _node_id: int) -> socket.socket:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError("it is not running")
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        self.sockets.append(theirs)
        return ours

    @property
    def latest(self) -> socket.socket:
        return self.sockets[-1]

    async def connected(self, count: int = 1) -> None:
        """Waits until the link has connected so many times."""
        async with asyncio.timeout(LONG_SECONDS):
            while len(self.sockets) < count:
                await asyncio.sleep(0)

    async def read(self) -> tuple[int, int]:
        """The next request: its correlation id and its number."""
        await self.connected()
        (size,) = struct.unpack(">i", await self._exactly(4))
        frame = memoryview(await self._exactly(size))
        header = read_request_header(frame, flexible=True)
        request = decode_message(WriteTxnMarkersRequest, VERSION, frame, header.body_position)
        return header.correlation_id, number_in(request)

    async def _exactly(self, count: int) -> bytes:
        loop = asyncio.get_running_loop()
        data = b""
        async with asyncio.timeout(LONG_SECONDS):
            while len(data) < count:
                more = await loop.sock_recv(self.latest, count - len(data))
                if not more:
                    raise ConnectionResetError
                data += more
        return data

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.latest, data)

    async def answer(self, correlation_id: int, number: int) -> None:
        await self.send(frame_of(correlation_id, number))

    async def answer_next(self) -> int:
        """Reads a request and answers it."""
        correlation_id, number = await self.read()
        await self.answer(correlation_id, number)
        return number

    def cut(self) -> None:
        self.latest.close()

    def close(self) -> None:
        for each in self.sockets:
            each.close()


def frame_of(correlation_id: int, number: int) -> bytes:
    """The response to a numbered request."""
    return b"".join(frame_response(answer_to(number), VERSION, correlation_id))
