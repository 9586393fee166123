"""A transport that writes responses in pieces, where the event loop would copy bytes that the client does not read.

Before Python 3.12 asyncio's own loop copies everything that a socket does not take at once into a buffer of the
connection; uvloop and later versions keep the buffers that they were given. Slices of segment files, which cost no
memory, would become a copy for each slow reader.
"""

from __future__ import annotations

import asyncio
import asyncio.selector_events
import sys
from collections import deque
from typing import Any, Final, cast

from ottla.ports import Buffer

# The most bytes that the loop may copy for one connection.
PIECE_BYTES: Final = 128 << 10


def copies_unsent_bytes(transport: asyncio.BaseTransport) -> bool:
    """Whether this is a socket transport of asyncio before Python 3.12."""
    return (
        sys.version_info < (3, 12)
        and type(transport).__module__ == asyncio.selector_events.__name__
    )


class PiecewiseTransport(asyncio.Transport):
    """Holds the buffers of the caller, and writes a piece to the transport below when the one before it is sent.

    While there are bytes left here, the transport below has unsent bytes, too: it calls `resume_writing` when those are
    sent, also if it is closing. The protocol has to call `go_on` then.
    """

    def __init__(self, below: asyncio.Transport) -> None:
        super().__init__()
        self._below = below
        self._waiting: deque[memoryview] = deque()
        below.set_write_buffer_limits(0)

    def write(self, data: Buffer) -> None:
        if len(data) <= PIECE_BYTES and not self._waiting:
            self._below.write(data)
        else:
            self._waiting.append(memoryview(data))
            self._feed()

    def writelines(self, list_of_data: Any) -> None:
        self._waiting.extend(map(memoryview, list_of_data))
        self._feed()

    def go_on(self) -> bool:
        """Writes the next pieces; returns whether all bytes were passed to the transport below."""
        self._feed()
        return not self._waiting and not self._below.get_write_buffer_size()

    def _feed(self) -> None:
        below = self._below
        while self._waiting and not below.get_write_buffer_size():
            was_closing = below.is_closing()
            below.write(take_piece(self._waiting))
            if below.is_closing() and not was_closing:  # the client has gone
                self._waiting.clear()

    # Calls that go to the transport below.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._waiting)) + self._below.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def is_reading(self) -> bool:
        return self._below.is_reading()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def close(self) -> None:
        """Closes after all bytes are sent, as in asyncio."""
        self._below.close()

    def abort(self) -> None:
        self._waiting.clear()
        self._below.abort()


def take_piece(waiting: deque[memoryview]) -> Buffer:
    """Takes the next piece; small buffers are joined."""
    parts: list[memoryview] = []
    room = PIECE_BYTES
    while waiting and room:
        part = waiting.popleft()
        if len(part) > room:
            waiting.appendleft(part[room:])
            part = part[:room]
        parts.append(part)
        room -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def without_copies(transport: asyncio.BaseTransport) -> asyncio.Transport:
    """The transport, or one in front of it if it would copy."""
    below = cast(asyncio.Transport, transport)  # uvloop's do not inherit from asyncio's
    return PiecewiseTransport(below) if copies_unsent_bytes(transport) else below
