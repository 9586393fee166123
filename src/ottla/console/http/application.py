"""The ASGI application: the JSON API from its table, and the page for every other path."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.app.declarations.json_conversion import (
    Converters,
    MismatchError,
    dump_json,
    load_json,
)
from ottla.console.access.identity import Identity
from ottla.console.console import Console
from ottla.console.http.errors import ApiError, api_error_of, bad_request
from ottla.console.http.page_files import PageFiles
from ottla.console.http.parameters import query_of
from ottla.console.http.routes import Call, Download, Route, ServerEvent
from ottla.errors import OttlaError
from ottla.events import EventLog

logger = EventLog(__name__)

MAX_BODY_BYTES: Final = 8 << 20
NO_STORE: Final = {"cache-control": "no-store"}
# A proxy that sees nothing for a while closes the stream.
KEEP_ALIVE_SECONDS: Final = 15.0
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
# Nothing but the console's own files; no frames, no plugins, no form that leads elsewhere.
SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

Identify = Callable[[Request, Route], Awaitable[Identity]]
"""Who makes a request for a route; raises ApiError where that user may not."""


def application(console: Console, routes: Sequence[Route], identify: Identify) -> ASGIApp:
    """The application that serves a console."""
    files = PageFiles()
    paths = dict.fromkeys(route.path for route in routes)
    answering = [
        StarletteRoute(
            path,
            _endpoint(console, [each for each in routes if each.path == path], identify),
            methods=[each.method for each in routes if each.path == path],
        )
        for path in paths
    ]

    async def no_such_api(request: Request) -> Response:
        return error_response(
            ApiError(HTTPStatus.NOT_FOUND, f"there is no {request.method} {request.url.path}")
        )

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    everything_else = [
        StarletteRoute("/api/{path:path}", no_such_api, methods=methods),
        StarletteRoute("/{path:path}", files.answer, methods=["GET"]),
    ]
    return _SecurityHeaders(Starlette(routes=[*answering, *everything_else]))


def _endpoint(
    console: Console, routes: Sequence[Route], identify: Identify
) -> Callable[[Request], Awaitable[Response]]:
    by_method = {route.method: route for route in routes}

    async def answer(request: Request) -> Response:
        # Starlette answers HEAD like GET and drops the body.
        method = "GET" if request.method == "HEAD" else request.method
        route = by_method[method]  # type: ignore[index]
        try:
            call = await _call(console, route, request, identify)
            result = route.handler(call)
            if inspect.isawaitable(result):
                result = await result
        except OttlaError as error:
            return error_response(api_error_of(error))
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        except Exception as error:
            logger.bug("console_failed", "a request failed: this is a bug", error)
            problem = ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the console failed: its log says more"
            )
            return error_response(problem)
        return _response(result)

    return answer


async def _call(
    console: Console, route: Route, request: Request, identify: Identify
) -> Call[Any, Any]:
    identity = await identify(request, route)
    query: Any = None
    if route.query is not None:
        query = query_of(route.query, request.query_params.multi_items())
    elif request.query_params:
        raise bad_request("this request has no query parameters")
    body = None if route.body is None else _body_of(route.body, await _read_body(request))
    return Call(console, identity, request.path_params, query, body)


async def _read_body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body has to be {JSON}")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise ApiError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has more than {MAX_BODY_BYTES} bytes",
            )
    return bytes(data)


def _body_of(wanted: type, data: bytes) -> Any:
    converters = Converters()
    try:
        found = load_json(data)
        unknown = (
            sorted(found.keys() - converters.hints(wanted).keys())
            if isinstance(found, dict)
            else []
        )
        if unknown:
            raise bad_request(f"the field {unknown[0]!r} is unknown")
        return _converter(wanted)(found)
    except MismatchError as error:
        raise bad_request(f"the body is not as it should be: {error}") from error


@lru_cache(maxsize=256)
def _converter(wanted: type) -> Callable[[Any], Any]:
    return Converters().of(wanted)


# Answers


def _response(result: object) -> Response:
    if result is None:
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=NO_STORE)
    if isinstance(result, Response):
        return result
    if isinstance(result, Download):
        return StreamingResponse(
            result.chunks,
            media_type=result.media_type,
            headers={**NO_STORE, "content-disposition": _attachment(result.file_name)},
        )
    if isinstance(result, AsyncIterator):
        return StreamingResponse(_event_lines(result), media_type=EVENT_STREAM, headers=NO_STORE)
    return Response(dump_json(result), media_type=JSON, headers=NO_STORE)


def error_response(error: ApiError) -> Response:
    """The answer that says what is wrong."""
    fields = {"error": error.message, "advice": error.advice}
    return Response(dump_json(fields), error.status, headers=NO_STORE, media_type=JSON)


def _attachment(file_name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"


async def _event_lines(events: AsyncIterator[ServerEvent]) -> AsyncIterator[bytes]:
    """The events as text; an error in between becomes an event, because the status has been sent."""
    try:
        async for event in _with_keep_alive(events):
            yield b": still here\n\n" if event is None else _lines_of(event)
    except OttlaError as error:
        found = api_error_of(error)
        yield _lines_of(ServerEvent("failed", {"error": found.message, "advice": found.advice}))


def _lines_of(event: ServerEvent) -> bytes:
    # JSON has no line breaks outside of text, where they are escaped.
    return b"event: %s\ndata: %s\n\n" % (event.name.encode(), dump_json(event.data))


async def _with_keep_alive(
    events: AsyncIterator[ServerEvent],
) -> AsyncIterator[ServerEvent | None]:
    """The events, and None where there was none for a while."""

    async def following() -> ServerEvent:
        return await anext(events)

    waiting = asyncio.ensure_future(following())
    try:
        while True:
            done, _ = await asyncio.wait([waiting], timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield None
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            waiting = asyncio.ensure_future(following())
            yield event
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


class _SecurityHeaders:
    """Adds the headers that every answer has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = [
            (name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)
