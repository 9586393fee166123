"""A tiny HTTP server for Prometheus and for health checks; it knows GET and HEAD and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

from ottla.broker.network.listen_error import ListenError
from ottla.doors.door import Door
from ottla.doors.login import pause_before_refusal
from ottla.doors.tls_stream import NotTlsError, TlsStream
from ottla.events import EventLog
from ottla.exposition import CONTENT_TYPE, Page
from ottla.model import Endpoint

logger = EventLog(__name__)

MAX_CONNECTIONS: Final = 16
MAX_HEAD_BYTES: Final = 8192
END_OF_HEAD: Final = b"\r\n\r\n"
HEAD_SECONDS: Final = 5.0
SEND_SECONDS: Final = 10.0
# A page is reused this long: making one for thousands of topics takes tens of milliseconds.
PAGE_SECONDS: Final = 1.0
HEALTHY: Final = "ok"
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


class MetricsListener:
    """Answers `GET /metrics` with the page of `collect`, and `GET /healthz` while the broker serves."""

    def __init__(self, door: Door, collect: Callable[[], Awaitable[Page]]) -> None:
        self.door = door
        self._tls = door.context()
        self._collect = collect
        self._collecting = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._silent: dict[
            asyncio.Task[None], None
        ] = {}  # have sent no whole head yet; oldest first
        self._cached_page: bytes | None = None
        self._state = "starting"

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return self.door.endpoint

    async def start(self) -> None:
        """Listens; `door` then has the port that was picked."""
        host, port = self.door.endpoint
        try:
            self._server = await asyncio.start_server(
                self._accept, host, port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            raise ListenError(self.door.endpoint, error, " for metrics") from error
        self.door = self.door.at(Endpoint(host, int(self._server.sockets[0].getsockname()[1])))
        self.door.warn_if_open()

    def serving(self) -> None:
        """From now on the broker is healthy."""
        self._state = HEALTHY

    def stopping(self) -> None:
        """From now on the broker is not healthy: it accepts no more requests."""
        self._state = "stopping"

    async def stop(self) -> None:
        """Closes everything."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or not self._has_room():
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._tasks[task] = self._silent[task] = None
        task.add_done_callback(self._forget)

    def _has_room(self) -> bool:
        """Closes the longest silent connection if there are too many, so that idle ones block no health check."""
        if len(self._tasks) < MAX_CONNECTIONS:
            return True
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return False
        self._forget(oldest)
        oldest.cancel()
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._silent.pop(task, None)

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
            writer.write(_framed(False, _text(HTTPStatus.BAD_REQUEST, "this address needs https")))
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
        self._silent.pop(task, None)
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            return False, _text(HTTPStatus.BAD_REQUEST, "this is no HTTP request")
        method, target, _ = line
        is_head_only, path = method == "HEAD", target.partition("?")[0]
        login = self.door.login
        # Health checks need no login.
        if path != HEALTH_PATH and login is not None and not login.admits(_authorization(head)):
            await pause_before_refusal()
            return is_head_only, _text(HTTPStatus.UNAUTHORIZED, "log in to see the metrics")
        if method not in ("GET", "HEAD"):
            return False, _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        return is_head_only, await self._found(path)

    async def _found(self, path: str) -> Reply:
        if path == "/metrics":
            return Reply(HTTPStatus.OK, CONTENT_TYPE, await self._page())
        if path == HEALTH_PATH:
            is_healthy = self._state == HEALTHY
            status = HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
            return _text(status, self._state)
        return _text(HTTPStatus.NOT_FOUND, "there are /metrics and /healthz")

    async def _page(self) -> bytes:
        # One at a time: several scrapes at once make the broker no slower than one does.
        async with self._collecting:
            if self._cached_page is None:
                pieces = []
                for piece in (await self._collect()).pieces():
                    pieces.append(piece)
                    await asyncio.sleep(0)  # serve other requests
                self._cached_page = b"".join(pieces)
                asyncio.get_running_loop().call_later(PAGE_SECONDS, self._let_go)
            return self._cached_page

    def _let_go(self) -> None:
        self._cached_page = None


def _authorization(head: bytes) -> str | None:
    for line in head.split(b"\r\n")[1:]:
        name, separator, value = line.partition(b":")
        if separator and name.strip().lower() == b"authorization":
            return value.strip().decode("latin-1")
    return None


def _text(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, PLAIN, f"{text}\n".encode())


def _framed(is_head_only: bool, reply: Reply) -> bytes:
    more = _MORE_HEADERS.get(reply.status, "")
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\n"
        f"Content-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if is_head_only else reply.body)
