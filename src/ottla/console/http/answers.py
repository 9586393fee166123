"""What a handler returned as an answer of HTTP: JSON, a stream of events, a download."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ottla import in_process
from ottla.app.declarations.json_conversion import dump_json
from ottla.console.access.login_refusals import LoginRefusedError
from ottla.console.access.visit import Visit
from ottla.console.http.errors import ApiError, MethodError, api_error_of
from ottla.console.http.routes import Download, ServerEvent
from ottla.console.http.streams import OpenStreams
from ottla.errors import OttlaError
from ottla.events import EventLog

logger = EventLog(__name__)

T = TypeVar("T")

# Answers of the API are for this moment and this user.
NO_STORE: Final = {"cache-control": "no-store"}
# A proxy that sees nothing for a while closes the stream.
KEEP_ALIVE_SECONDS: Final = 15.0
# How old what is known of the rights behind a stream may be, where there is no session that is watched.
CHECK_SECONDS: Final = 5.0
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
# A proxy that collects what it passes on would hold events back.
STREAM_HEADERS: Final = {**NO_STORE, "x-accel-buffering": "no"}
SESSION_ENDED: Final = "session_ended"


def response_of(result: object, visit: Visit, streams: OpenStreams) -> Response:
    """The answer of HTTP."""
    if result is None:
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=NO_STORE)
    if isinstance(result, Response):
        return result
    if isinstance(result, Download | AsyncIterator):
        streams.check(visit)
    if isinstance(result, Download):
        return _StreamOfSession(
            _until_session_ends(result.chunks, visit),
            result.media_type,
            {**NO_STORE, "content-disposition": _attachment(result.file_name)},
            visit,
            streams,
        )
    if isinstance(result, AsyncIterator):
        return _StreamOfSession(
            _event_lines(result, visit), EVENT_STREAM, STREAM_HEADERS, visit, streams
        )
    return Response(dump_json(result), media_type=JSON, headers=NO_STORE)


def error_response(error: ApiError) -> Response:
    """The answer that says what is wrong."""
    headers = dict(NO_STORE)
    if error.status is HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = 'Bearer realm="ottla"'
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(error.retry_after_seconds)
    if isinstance(error, MethodError):
        headers["allow"] = ", ".join(error.allowed)
    fields = {"error": in_process.without_hosts(error.message), "advice": error.advice}
    return Response(dump_json(fields), error.status, headers=headers, media_type=JSON)


def _attachment(file_name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(file_name, safe='', errors='replace')}"


class _StreamOfSession(StreamingResponse):
    """An answer that lasts: it has a place among the open streams."""

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        media_type: str,
        headers: dict[str, str],
        visit: Visit,
        streams: OpenStreams,
    ) -> None:
        super().__init__(chunks, media_type=media_type, headers=headers)
        self._visit, self._streams = visit, streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.place(self._visit):
            await super().__call__(scope, receive, send)


# Events


async def _event_lines(events: AsyncIterator[ServerEvent], visit: Visit) -> AsyncIterator[bytes]:
    """The events as text; an error in between becomes an event, because the status has been sent."""
    try:
        async for event in _with_keep_alive(events, visit):
            yield b": still here\n\n" if event is None else _lines_of(event)
    except OttlaError as error:
        found = api_error_of(error)
        yield _lines_of(ServerEvent("failed", {"error": found.message, "advice": found.advice}))
    except Exception as error:
        logger.bug("console_failed", "a stream failed: this is a bug", error)
        yield _lines_of(
            ServerEvent(
                "failed", {"error": "the console failed: its log says more", "advice": None}
            )
        )


def _lines_of(event: ServerEvent) -> bytes:
    # JSON has no line breaks outside of text, where they are escaped.
    return b"event: %s\ndata: %s\n\n" % (event.name.encode(), dump_json(event.data))


async def _with_keep_alive(
    events: AsyncIterator[ServerEvent], visit: Visit
) -> AsyncIterator[ServerEvent | None]:
    """The events, and None where there was none for a while; the last one may be that the session has ended."""

    async def following() -> ServerEvent:
        return await anext(events)

    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        close = getattr(events, "aclose", None)
        if close is not None:
            stack.push_async_callback(close)
        waiting = loop.create_task(following())
        ending = loop.create_task(_end_of_session(visit))
        stack.push_async_callback(_cancel, ending)
        try:
            while True:
                done, _ = await asyncio.wait(
                    [waiting, ending],
                    timeout=KEEP_ALIVE_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if ending in done:
                    yield ServerEvent(SESSION_ENDED, {"reason": ending.result()})
                    return
                if not done:
                    yield None
                    continue
                try:
                    event = waiting.result()
                except StopAsyncIteration:
                    return
                waiting = loop.create_task(following())
                yield event
        finally:
            await _cancel(waiting)


async def _end_of_session(visit: Visit) -> str:
    """Returns when who asked may not see anything any more, with the reason."""
    session, role_now = visit.session, visit.role_now
    if session is not None:
        await session.ended.wait()
        return session.reason
    if role_now is None:
        await asyncio.get_running_loop().create_future()  # never
    while role_now is not None:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            await role_now()
        except LoginRefusedError as error:
            return str(error)
    return ""


async def _cancel(task: asyncio.Task[T]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# Downloads


async def _until_session_ends(chunks: AsyncIterator[bytes], visit: Visit) -> AsyncIterator[bytes]:
    """The chunks; a download whose session ends breaks off, so that nobody takes it for a whole one."""
    ending = asyncio.get_running_loop().create_task(_end_of_session(visit))
    try:
        async for chunk in chunks:
            if ending.done():
                raise ApiError(HTTPStatus.UNAUTHORIZED, ending.result())
            yield chunk
    finally:
        await _cancel(ending)
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
