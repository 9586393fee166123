"""A proxy before the database that loses answers and breaks connections when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit


class BreakingProxy:
    def __init__(self, target_url: str) -> None:
        parts = urlsplit(target_url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._parts = parts
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.loses_answers = False
        self.delivers = asyncio.Event()  # clear while answers are held back
        self.delivers.set()
        self.url = ""

    async def __aenter__(self) -> BreakingProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user, _, _ = self._parts.netloc.rpartition("@")
        self.url = urlunsplit(self._parts._replace(netloc=f"{user}@127.0.0.1:{port}"))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.break_connections()
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def break_connections(self) -> None:
        self.delivers.set()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        self._writers += [writer, back]
        self._tasks += [
            asyncio.ensure_future(self._copy(reader, back, is_answer=False)),
            asyncio.ensure_future(self._copy(there, writer, is_answer=True)),
        ]

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if is_answer and self.loses_answers:
                    self.break_connections()
                    break
                if is_answer:
                    await self.delivers.wait()
                target.write(data)
                await target.drain()
        target.close()
