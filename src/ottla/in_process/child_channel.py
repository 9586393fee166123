"""The end of a channel that a process keeps when it starts a child: the child gets connections to some servers.

The child cannot be trusted to be well: whatever it sends, or does not read, ends the channel at worst. No socket of
ours is ever shared with it, since it could make a shared one block.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection
from typing import Final

from ottla.in_process.messages import (
    REQUEST_BYTES,
    MalformedRequestError,
    Request,
    encode_answer,
)
from ottla.in_process.servers import connect_here

# Requests that are answered before the loop serves others.
MAX_REQUESTS_AT_ONCE: Final = 16


class ChildChannel:
    """One channel; used on a running loop."""

    def __init__(
        self, hosts: Collection[str], ended: Callable[[str | None], None] | None = None
    ) -> None:
        """`hosts` are the servers that the child may reach; `ended` is told once why, or None if the child has gone."""
        self._hosts = frozenset(hosts)
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._ours, self.childs_end = socket.socketpair()
        """The child inherits `childs_end`, which has to be closed here when it was started."""
        self._ours.setblocking(False)
        self._loop.add_reader(self._ours.fileno(), self._read)

    def allow(self, hosts: Collection[str]) -> None:
        """From now on these are the servers that the child may reach."""
        self._hosts = frozenset(hosts)

    def close(self) -> None:
        """End the channel: the child sees that at once."""
        if self._ours.fileno() >= 0:
            self._loop.remove_reader(self._ours.fileno())
            self._ours.close()
        self.childs_end.close()

    def _end(self, reason: str | None) -> None:
        self.close()
        if self._ended is not None:
            self._ended(reason)

    def _read(self) -> None:
        try:
            # File descriptors that come along are closed by the system, as nothing takes them.
            data = self._ours.recv(MAX_REQUESTS_AT_ONCE * REQUEST_BYTES - len(self._received))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(None)
            return
        self._received += data
        try:
            while len(self._received) >= REQUEST_BYTES:
                request = Request.decode(self._received[:REQUEST_BYTES])
                self._received = self._received[REQUEST_BYTES:]
                self._answer(request)
        except MalformedRequestError as error:
            self._end(str(error))
        except BlockingIOError:
            self._end("it does not read the answers to its requests")
        except OSError:
            self._end(None)

    def _answer(self, request: Request) -> None:
        answer = encode_answer(request.number)
        try:
            if request.host not in self._hosts:
                raise ConnectionRefusedError
            connection = connect_here(request.host)
        except (ConnectionRefusedError, OSError):  # no such server, or too many open files
            self._ours.send(answer)
            return
        with connection:
            socket.send_fds(self._ours, [answer], [connection.fileno()])
