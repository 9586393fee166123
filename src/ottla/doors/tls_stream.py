"""TLS over a stream that was accepted already, so that handshakes count as connections and have their deadline."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

T = TypeVar("T")

HANDSHAKE: Final = 0x16  # the first byte of TLS
_READ_BYTES: Final = 16_384
# The most that a client may send, encrypted: records without anything in them cost time, however many there are.
MAX_RECEIVED_BYTES: Final = 64 << 10


class NotTlsError(ConnectionError):
    """The client does not speak TLS."""


class TlsStream:
    """The server's side of one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._received_bytes = 0
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def shake_hands(self) -> None:
        """Begin; raises NotTlsError or an ssl.SSLError."""
        first = await self._reader.readexactly(1)
        if first[0] != HANDSHAKE:
            raise NotTlsError("the client does not speak TLS")
        self._incoming.write(first)
        await self._do(self._tls.do_handshake)

    async def read_until(self, end: bytes, limit: int) -> bytes:
        """What the client sends, up to and with `end`."""
        data = b""
        while end not in data:
            more = await self._do(lambda: self._tls.read(_READ_BYTES))
            data += more
            if not more:
                raise asyncio.IncompleteReadError(data, None)
            if len(data) > limit:
                raise asyncio.LimitOverrunError("too much before the end", len(data))
        return data[: data.index(end) + len(end)]

    async def write(self, data: bytes) -> None:
        """Send everything, and say that it was everything."""
        for start in range(0, len(data), _READ_BYTES):
            self._tls.write(data[start : start + _READ_BYTES])
            await self._flush()
        # The client's own end is not awaited.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()

    async def _do(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._flush()
            except ssl.SSLError:
                # An alert says why.
                await self._flush()
                raise
            else:
                await self._flush()
                return result
            received = await self._reader.read(_READ_BYTES)
            self._received_bytes += len(received)
            if self._received_bytes > MAX_RECEIVED_BYTES:
                raise ConnectionError("the client sends too much")
            if received:
                self._incoming.write(received)
            else:
                self._incoming.write_eof()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())
            await self._writer.drain()
