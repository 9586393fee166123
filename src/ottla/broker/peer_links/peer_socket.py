"""The asking end of one connection to a peer: frames of requests out, frames of responses in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from ottla.ports import Buffer
from ottla.wire.framing import SIZE_BYTES, read_size

SMALLEST_RESPONSE_BYTES: Final = 4
# A response has a few bytes for each partition of its request.
LARGEST_RESPONSE_BYTES: Final = 64 << 20
ROOM_BYTES: Final = 64 << 10


class PeerSocket(asyncio.BufferedProtocol):
    """Tells of every response, and once of the end; after the end it tells nothing more."""

    def __init__(
        self,
        take_response: Callable[[memoryview], None],
        writable: Callable[[], None],
        ended: Callable[[PeerSocket, str], None],
    ) -> None:
        """`take_response` may keep its bytes; it raises ValueError if they are no response."""
        self._take_response = take_response
        self._writable = writable
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._room = bytearray(ROOM_BYTES)
        self._filled = 0
        self._is_over = False
        self.end_reason: str | None = None
        """Why it has ended, unless its owner has closed it."""
        self.is_full = False
        """Whether the peer is to take what was written before more is written."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the operating system has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, frames: list[Buffer]) -> None:
        """Writes frames, which may share a buffer of the operating system's."""
        if self._transport is None or self._transport.is_closing():
            return  # `connection_lost` follows
        if len(frames) == 1:
            self._transport.write(frames[0])
        else:
            self._transport.writelines(frames)

    def close(self) -> None:
        """Ends the connection without a word to its owner; what was not sent yet is dropped."""
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        if not self._is_over:
            self.close()
            self.end_reason = reason
            self._ended(self, reason)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_over:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end("it has closed the connection" if exc is None else str(exc))

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if not self._is_over:
            self._writable()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._room)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_over:
            return
        room, end, position = self._room, self._filled + nbytes, 0
        while end - position >= SIZE_BYTES:
            (size,) = read_size(room, position)
            if not SMALLEST_RESPONSE_BYTES <= size <= LARGEST_RESPONSE_BYTES:
                self._end(f"it has sent a frame of {size} bytes, which no response has")
                return
            start = position + SIZE_BYTES
            if end - start < size:
                if SIZE_BYTES + size > len(room):
                    # The event loop may still have a view of the old room.
                    self._room = bytearray(SIZE_BYTES + size)
                break
            if not self._take(memoryview(bytes(room[start : start + size]))):
                return
            position = start + size
        self._filled = end - position
        if self._filled and (position or self._room is not room):
            self._room[: self._filled] = room[position:end]
        if not self._filled and len(self._room) > ROOM_BYTES:
            self._room = bytearray(ROOM_BYTES)

    def _take(self, frame: memoryview) -> bool:
        """Whether the connection goes on after a response."""
        try:
            self._take_response(frame)
        except ValueError as error:
            self._end(f"its response makes no sense: {error}")
        return not self._is_over
