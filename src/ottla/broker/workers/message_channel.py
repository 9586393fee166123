"""One end of the channel between a supervisor and a worker: messages with a length, and file descriptors with them.

Sending never waits: what the other end does not read is kept here, up to a limit.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.workers.messages import (
    MalformedMessageError,
    Message,
    decode_message,
    encode_message,
)
from ottla.events import EventLog

logger = EventLog(__name__)

_LENGTH: Final = struct.Struct(">I")
_READ_BYTES: Final = 256 * 1024
# Linux takes 253 with one message.
MAX_DESCRIPTORS: Final = 200
# A snapshot of the catalog is the largest message.
MAX_MESSAGE_BYTES: Final = 1 << 30
MAX_UNSENT_BYTES: Final = 64 << 20


class MessageChannel:
    """An end of a pair of connected sockets; used on a running loop."""

    def __init__(
        self,
        connection: socket.socket,
        take: Callable[[Message, list[int]], None],
        ended: Callable[[str | None], None],
    ) -> None:
        """`take` gets each message with its descriptors, which are its own then.

        `ended` is told once why the channel ended, or None if the other end was closed.
        """
        self._connection = connection
        self._connection.setblocking(False)
        self._take = take
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._descriptors: deque[int] = deque()
        # What was not sent yet: bytes, and the descriptors that go with the first of them.
        self._unsent: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._unsent_bytes = 0
        self._number = connection.fileno()
        self._is_over = False
        self._loop.add_reader(self._number, self._read)

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_over

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message; copies of the descriptors are kept until they are sent.

        OSError if there are too many open files for copies; nothing is sent then.
        """
        if self._is_over:
            return
        data = encode_message(message, len(descriptors))
        frame = memoryview(_LENGTH.pack(len(data)) + data)
        self._unsent.append((frame, _copies(descriptors)))
        self._unsent_bytes += len(frame)
        if len(self._unsent) == 1:
            self._write()
        if self._unsent_bytes > MAX_UNSENT_BYTES + len(frame):
            self._end("it does not read what it is told")

    def close(self) -> None:
        """End the channel: the other end sees that at once."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.remove_reader(self._number)
        self._loop.remove_writer(self._number)
        for _, descriptors in self._unsent:
            _close_all(descriptors)
        self._unsent.clear()
        _close_all(self._descriptors)
        self._descriptors.clear()
        self._connection.close()

    def _end(self, reason: str | None) -> None:
        if not self._is_over:
            self.close()
            self._ended(reason)

    def _write(self) -> None:
        try:
            while self._unsent:
                data, descriptors = self._unsent[0]
                sent = self._send_some(data, descriptors)
                _close_all(descriptors)
                self._unsent_bytes -= sent
                if sent < len(data):
                    self._unsent[0] = (data[sent:], ())
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._number, self._write)
            return
        except OSError:
            self._loop.call_soon(self._end, None)
            return
        self._loop.remove_writer(self._number)

    def _send_some(self, data: memoryview, descriptors: Sequence[int]) -> int:
        if not descriptors:
            return self._connection.send(data)
        return socket.send_fds(self._connection, [data], list(descriptors))

    def read_now(self) -> None:
        """Takes all that has come, without a turn of the loop in between."""
        while not self._is_over and self._read():
            pass

    def _read(self) -> bool:
        """Takes what has come; False if that was nothing."""
        try:
            data, descriptors, flags, _ = socket.recv_fds(
                self._connection, _READ_BYTES, MAX_DESCRIPTORS
            )
        except BlockingIOError:
            return False
        except OSError:
            self._end(None)
            return False
        for each in descriptors:
            os.set_inheritable(each, False)
        self._descriptors.extend(descriptors)
        if flags & socket.MSG_CTRUNC:
            self._end("file descriptors were lost: there are too many open files")
            return False
        if not data:
            self._end(None)
            return False
        self._received += data
        try:
            self._take_messages()
        except MalformedMessageError as error:
            self._end(str(error))
        except Exception as error:
            # What it said has no effect, or half of it: whoever goes on from here would act by something else.
            logger.bug(
                "message_failed", "what a process said could not be acted on: this is a bug", error
            )
            self._end(f"what it said could not be acted on: {error!r}")
        return True

    def _take_messages(self) -> None:
        position = 0
        while not self._is_over and len(self._received) - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._received, position)
            if size > MAX_MESSAGE_BYTES:
                raise MalformedMessageError(f"a message has {size} bytes")
            end = position + _LENGTH.size + size
            if len(self._received) < end:
                break
            data = bytes(self._received[position + _LENGTH.size : end])
            position = end
            message, descriptor_count = decode_message(data)
            if descriptor_count > len(self._descriptors):
                raise MalformedMessageError("a message has come without its file descriptors")
            taken = [self._descriptors.popleft() for _ in range(descriptor_count)]
            self._take(message, taken)
        del self._received[:position]


def _copies(descriptors: Sequence[int]) -> list[int]:
    made: list[int] = []
    try:
        for each in descriptors:
            made.append(os.dup(each))
    except OSError:
        _close_all(made)
        raise
    return made


def _close_all(descriptors: Sequence[int] | deque[int]) -> None:
    for each in descriptors:
        os.close(each)
