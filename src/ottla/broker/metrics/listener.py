"""A tiny HTTP server for Prometheus, health checks and the console; it knows GET and HEAD and nothing else."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

from ottla.broker.network.listen_error import ListenError
from ottla.doors.door import Door
from ottla.doors.login import Login, pause_before_refusal
from ottla.doors.tls_stream import NotTlsError, TlsStream
from ottla.events import EventLog
from ottla.model import Endpoint

logger = EventLog(__name__)

MAX_CONNECTIONS: Final = 16
MAX_HEAD_BYTES: Final = 8192
END_OF_HEAD: Final = b"\r\n\r\n"
HEAD_SECONDS: Final = 5.0
SEND_SECONDS: Final = 10.0
HEALTH_PATH: Final = "/healthz"
PLAIN: Final = "text/plain; charset=utf-8"
_MORE_HEADERS: Final = {
    HTTPStatus.METHOD_NOT_ALLOWED: "Allow: GET, HEAD\r\n",
    HTTPStatus.UNAUTHORIZED: 'WWW-Authenticate: Basic realm="ottla"\r\n',
}


class Reply(NamedTuple):
    """An HTTP response."""

    status: HTTPStatus
    content_type: str
    body: bytes


Find = Callable[[str, str], Awaitable[Reply]]
"""The page at a path, with its query."""


class HttpConversations:
    """Answers connections, one request on each; without a login everybody gets every page."""

    def __init__(
        self, find: Find, *, tls: ssl.SSLContext | None = None, login: Login | None = None
    ) -> None:
        self._find = find
        self._tls = tls
        self._login = login
        self.tasks: dict[asyncio.Task[None], None] = {}
        # Have sent no whole head yet; the oldest first.
        self.silent: dict[asyncio.Task[None], None] = {}
        self._is_over = False

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a new connection, if there is room for it."""
        if self._is_over or not self._has_room():
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self.tasks[task] = self.silent[task] = None
        task.add_done_callback(self._forget)

    async def accept_socket(self, accepted: socket.socket) -> None:
        """Answer a connection that was made elsewhere."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader, self.accept)
        try:
            await loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError:
            accepted.close()

    async def stop(self) -> None:
        """Close everything."""
        self._is_over = True
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _has_room(self) -> bool:
        """Closes the longest silent connection if there are too many, so that idle ones block no health check."""
        if len(self.tasks) < MAX_CONNECTIONS:
            return True
        oldest = next(iter(self.silent), None)
        if oldest is None:
            return False
        self._forget(oldest)
        oldest.cancel()
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.tasks.pop(task, None)
        self.silent.pop(task, None)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            tls = None if self._tls is None else TlsStream(reader, writer, self._tls)
            async with asyncio.timeout(HEAD_SECONDS):
                if tls is None:
                    head = await reader.readuntil(END_OF_HEAD)
                else:
                    await tls.shake_hands()
                    head = await tls.read_until(END_OF_HEAD, MAX_HEAD_BYTES)
            answer = _framed(*await self._reply(head))
            async with asyncio.timeout(SEND_SECONDS):
                if tls is None:
                    writer.write(answer)
                    await writer.drain()
                else:
                    await tls.write(answer)
                writer.close()
                await writer.wait_closed()
        except NotTlsError:
            writer.write(
                _framed(False, text_reply(HTTPStatus.BAD_REQUEST, "this address needs https"))
            )
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(SEND_SECONDS):
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the client has gone
        except Exception as error:
            logger.bug("metrics_failed", "a scrape failed: this is a bug", error)
        finally:
            # Otherwise the bytes for a client that does not read would stay in memory for ever.
            with suppress(Exception):
                writer.transport.abort()

    async def _reply(self, head: bytes) -> tuple[bool, Reply]:
        # From now on no other takes its place, also while it waits for a refusal: guesses would take no time.
        task = asyncio.current_task()
        assert task is not None
        self.silent.pop(task, None)
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            return False, text_reply(HTTPStatus.BAD_REQUEST, "this is no HTTP request")
        method, target, _ = line
        path, _, query = target.partition("?")
        is_head_only, login = method == "HEAD", self._login
        # Health checks need no login.
        if path != HEALTH_PATH and login is not None and not login.admits(_authorization(head)):
            await pause_before_refusal()
            return is_head_only, text_reply(HTTPStatus.UNAUTHORIZED, "log in to see this page")
        if method not in ("GET", "HEAD"):
            return False, text_reply(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        return is_head_only, await self._find(path, query)


class MetricsListener:
    """Where Prometheus, health checks and consoles find their pages."""

    def __init__(self, door: Door, find: Find) -> None:
        self.door = door
        self.conversations = HttpConversations(find, tls=door.context(), login=door.login)
        self._server: asyncio.Server | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return self.door.endpoint

    async def start(self) -> None:
        """Listens; `door` then has the port that was picked."""
        host, port = self.door.endpoint
        try:
            self._server = await asyncio.start_server(
                self.conversations.accept, host, port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            raise ListenError(self.door.endpoint, error, " for metrics") from error
        self.door = self.door.at(Endpoint(host, int(self._server.sockets[0].getsockname()[1])))
        self.door.warn_if_open()

    async def stop(self) -> None:
        """Closes everything."""
        if self._server is not None:
            self._server.close()
        await self.conversations.stop()


def _authorization(head: bytes) -> str | None:
    for line in head.split(b"\r\n")[1:]:
        name, separator, value = line.partition(b":")
        if separator and name.strip().lower() == b"authorization":
            return value.strip().decode("latin-1")
    return None


def text_reply(status: HTTPStatus, text: str) -> Reply:
    """A line of plain text."""
    return Reply(status, PLAIN, f"{text}\n".encode())


def _framed(is_head_only: bool, reply: Reply) -> bytes:
    more = _MORE_HEADERS.get(reply.status, "")
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\n"
        f"Content-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if is_head_only else reply.body)
