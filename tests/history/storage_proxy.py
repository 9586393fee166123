"""A TCP proxy before a server of the shared storage: it delays, cuts, loses answers and refuses, as a run says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final

from ottla.model import Endpoint

PIECE_BYTES: Final = 65_536
STOP_SECONDS: Final = 10.0
UNAVAILABLE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\nContent-Length: 58\r\n"
    b"Connection: close\r\n\r\n<Error><Code>SlowDown</Code><Message>503</Message></Error>"
)


class Trouble(Enum):
    """What is done to all connections."""

    NONE = "forwarded"
    SLOW = "everything is forwarded later"
    LOSE_ANSWERS = "requests are forwarded, and the connection is cut instead of the answer"
    DEAD = "connections are cut, and no new one is taken"
    STUCK = "nothing is forwarded, and nothing is cut, until it is over"
    UNAVAILABLE = "requests are answered with 503 of HTTP"


class StorageProxy:
    """On a thread and a loop of its own."""

    def __init__(self, listen: Endpoint, server: Endpoint) -> None:
        self.listen = listen
        self._server = server
        self._trouble = Trouble.NONE
        self._delay_seconds = 0.0
        self._is_over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Server | None = None
        # How many answers were lost, connections cut, and requests refused.
        self.lost_answers = 0
        self.refused = 0

    # Called by the run's thread.

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._call(self._open)

    def stop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._call(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()

    def begin(self, trouble: Trouble, delay_seconds: float = 0.0) -> None:
        """Another trouble takes the place of what there was."""

        async def change() -> None:
            self._is_over.set()
            self._is_over = asyncio.Event()
            self._trouble, self._delay_seconds = trouble, delay_seconds
            if trouble is Trouble.DEAD:
                self._cut()

        self._call(change)

    def cut(self) -> None:
        """All connections are reset, once."""

        async def cut() -> None:
            self._cut()

        self._call(cut)

    def _call(self, work: Callable[[], object]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(STOP_SECONDS)  # type: ignore[arg-type]

    # On the loop.

    async def _open(self) -> None:
        self._accepting = await asyncio.start_server(
            self._accept, self.listen.host, self.listen.port
        )

    async def _close(self) -> None:
        if self._accepting is not None:
            self._accepting.close()
        self._cut()
        self._is_over.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if self._trouble is Trouble.DEAD:
                return
            there, back = await asyncio.open_connection(self._server.host, self._server.port)
            self._writers.add(back)
            try:
                await asyncio.gather(
                    self._forward_requests(reader, back, writer),
                    self._forward_answers(there, writer, back),
                )
            finally:
                self._writers.discard(back)
                back.transport.abort()
        except OSError:
            pass
        except asyncio.CancelledError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._tasks.discard(task)

    async def _forward_requests(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(PIECE_BYTES):
                await self._wait()
                if self._trouble is Trouble.UNAVAILABLE:
                    self.refused += 1
                    client.write(UNAVAILABLE)
                    await client.drain()
                    client.close()
                    break
                target.write(data)
                await target.drain()
        target.close()

    async def _forward_answers(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(PIECE_BYTES):
                if self._trouble is Trouble.LOSE_ANSWERS:
                    self.lost_answers += 1
                    target.transport.abort()
                    server.close()
                    return
                await self._wait()
                target.write(data)
                await target.drain()
        target.close()

    async def _wait(self) -> None:
        """What a trouble lets everything wait for."""
        if self._trouble is Trouble.SLOW:
            await asyncio.sleep(self._delay_seconds)
        while self._trouble is Trouble.STUCK:
            await self._is_over.wait()
