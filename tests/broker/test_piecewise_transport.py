"""Answers leave in pieces and arrive whole, and little of them is copied."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from ottla.broker.network.piecewise_transport import PIECE_BYTES, PiecewiseTransport

LARGE = bytes(range(256)) * (1 << 14)  # 4 MiB
PARTS = [LARGE[:10], LARGE[: 3 * PIECE_BYTES + 7], b"", LARGE[5:20], LARGE]


class Protocol(asyncio.Protocol):
    """Does of a connection what the transport needs."""

    def __init__(self) -> None:
        self.transport: PiecewiseTransport | None = None
        self.resumed = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = PiecewiseTransport(cast(asyncio.Transport, transport))

    def resume_writing(self) -> None:
        assert self.transport is not None
        if self.transport.go_on():
            self.resumed += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Protocol, PiecewiseTransport, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(Protocol, sock=ours)
    assert protocol.transport is not None
    with theirs:
        yield protocol, protocol.transport, theirs
        if not protocol.lost.done():
            protocol.transport.abort()
        await asyncio.wait_for(protocol.lost, 10)


async def receive(theirs: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    loop = asyncio.get_running_loop()
    while len(received) < size_bytes and (data := await loop.sock_recv(theirs, 1 << 20)):
        received += data
    return bytes(received)


def test_everything_arrives_in_its_order_and_at_most_a_piece_is_copied() -> None:
    async def scenario() -> None:
        async with connected() as (protocol, transport, theirs):
            transport.writelines(PARTS)
            transport.write(b"small")
            transport.write(LARGE)
            assert transport._below.get_write_buffer_size() <= PIECE_BYTES
            expected = b"".join(PARTS) + b"small" + LARGE
            assert await receive(theirs, len(expected)) == expected
            assert transport.get_write_buffer_size() == 0
            assert protocol.resumed == 1, "only when all of it has gone"
            transport.write(b"after")
            assert await receive(theirs, 5) == b"after"

    asyncio.run(scenario())


@pytest.mark.parametrize("who", ["we", "the client"])
def test_what_was_written_before_a_close_is_sent(who: str) -> None:
    async def scenario() -> None:
        async with connected() as (protocol, transport, theirs):
            transport.writelines(PARTS)
            if who == "we":
                transport.close()
            else:
                theirs.shutdown(socket.SHUT_WR)
            expected = b"".join(PARTS)
            assert await receive(theirs, len(expected) + 1) == expected
            await asyncio.wait_for(protocol.lost, 10)

    asyncio.run(scenario())


def test_a_client_that_goes_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with connected() as (protocol, transport, theirs):
            transport.writelines(PARTS)
            theirs.close()
            await asyncio.wait_for(protocol.lost, 10)

    asyncio.run(scenario())
    assert caplog.text == "", "nothing is written to it in vain"
