"""The received bytes of one connection that cannot be handled yet: an incomplete frame, or frames that wait."""

from __future__ import annotations

from ottla.broker.network.receive_buffers import LARGE_BYTES, Buffer, Buffers
from ottla.broker.network.unfinished_frames import UNCOUNTED_BYTES, Receiver, UnfinishedFrames
from ottla.wire.framing import SIZE_BYTES, read_size

SMALLEST_ROOM_BYTES = UNCOUNTED_BYTES
GROWTH_FACTOR = 4
_NO_BUFFER = bytearray()


class FrameBuffer:
    """A buffer for the rest of a frame; its memory counts against the limit of all connections.

    The room grows with the bytes that have arrived: the size that a frame announces alone costs no memory.
    """

    __slots__ = (
        "_buffers",
        "_data",
        "_is_in_use",
        "_receiver",
        "_room",
        "_start",
        "_unfinished",
        "filled",
        "lacks_room",
        "smallest_room_bytes",
    )

    def __init__(self, buffers: Buffers, unfinished: UnfinishedFrames, receiver: Receiver) -> None:
        self._buffers = buffers
        self._unfinished = unfinished
        self._receiver = receiver
        self.smallest_room_bytes = SMALLEST_ROOM_BYTES
        self._data: Buffer = _NO_BUFFER
        self._start = 0  # bytes before it have been handled
        self._room = 0  # the next receives fill the buffer up to here
        self._is_in_use = False  # a large request refers to the bytes: they must stay
        self.filled = 0  # 0: there is no buffer
        self.lacks_room = False  # until other connections release memory

    @property
    def free_space(self) -> memoryview:
        return memoryview(self._data)[self.filled : self._room]

    @property
    def unhandled(self) -> memoryview:
        return memoryview(self._data)[self._start : self.filled]

    @property
    def may_wait_in_place(self) -> bool:
        """Whether there are unhandled bytes, and the buffer may stay as it is until they are handled."""
        return self._start < self.filled and not self._is_in_use

    @property
    def is_full(self) -> bool:
        return self.filled == self._room

    def skip(self, handled_bytes: int) -> None:
        """Passes over frames that were handled."""
        self._start += handled_bytes
        self._unfinished.release(self._receiver)

    def keep_for_request(self) -> None:
        """A large request refers to the bytes from now on: the next `replace` or `clear` leaves them to it."""
        self._is_in_use = True

    def replace(self, rest: memoryview) -> None:
        """Moves bytes to a buffer with room for more of their frame."""
        old, is_free = self._data, not self._is_in_use
        self._is_in_use = False
        self._start = 0
        filled = len(rest)
        room = max(self.smallest_room_bytes, GROWTH_FACTOR * filled)
        data, whole = None, 0
        if filled >= SIZE_BYTES:
            whole = max(SIZE_BYTES + int(read_size(rest)[0]), filled + SIZE_BYTES)
            if whole > room:
                data = self._buffers.take_spare(whole)
            if data is not None or whole < room:
                room = whole
        room = capacity = max(room, filled + SIZE_BYTES)
        if not self._unfinished.claim(self._receiver, room):
            # The connection stops reading: the rest of the frame stays with the client for now.
            self.lacks_room = True
            room = capacity = filled + SIZE_BYTES
        elif room >= LARGE_BYTES and whole > room:
            # The system provides the memory only as it is filled, and a growing frame needs no copy.
            capacity = whole
        if data is None:
            data = self._buffers.take(capacity)
        data[:filled] = rest
        self._data, self.filled, self._room = data, filled, room
        if old and is_free:
            self._buffers.give_back(old)

    def grow(self) -> bool:
        """Claims more room in a full buffer; False if it has no more."""
        if not self._room < len(self._data):
            return False
        room = self._next_room()
        if self._unfinished.claim(self._receiver, room):
            self._room = room
        else:
            self.lacks_room = True
        return True

    def use_claimed_room(self) -> bool:
        """Continues after `lacks_room`: the claim is granted; False if the buffer itself is too small for it."""
        self.lacks_room = False
        if not self._room < len(self._data):
            return False
        self._room = self._next_room()
        return True

    def _next_room(self) -> int:
        return min(len(self._data), GROWTH_FACTOR * self.filled)

    def clear(self) -> None:
        """Every byte was handled, or the connection is closing."""
        old, is_free = self._data, not self._is_in_use
        self._is_in_use = False
        self._start = self.filled = 0
        self._data = _NO_BUFFER
        self._unfinished.release(self._receiver)
        if old and is_free:
            self._buffers.give_back(old)

    def drop(self) -> None:
        """The connection is lost: asyncio may still refer to the buffer, which is therefore not reused."""
        self.filled = 0
        self._data = _NO_BUFFER
        self._unfinished.release(self._receiver)
        del self._receiver  # else the two would refer to each other
