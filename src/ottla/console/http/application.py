"""The ASGI application: the JSON API from its table, and the page for every other path."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.app.declarations.json_conversion import Converters, MismatchError, load_json
from ottla.console.access.roles import Role
from ottla.console.access.visit import Visit
from ottla.console.console import Console
from ottla.console.http.answers import JSON, error_response, response_of
from ottla.console.http.errors import ApiError, MethodError, api_error_of, bad_request
from ottla.console.http.guard import Guard
from ottla.console.http.page_files import PageFiles
from ottla.console.http.parameters import query_of
from ottla.console.http.routes import Call, Route
from ottla.errors import OttlaError
from ottla.events import EventLog

logger = EventLog(__name__)

audit = EventLog("ottla.console.audit")

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# A request whose body or whose handler takes longer is given up; streams and downloads may last.
BODY_SECONDS: Final = 30.0
HANDLER_SECONDS: Final = 120.0
MAX_SHOWN_CHARS: Final = 500


def application(console: Console, routes: Sequence[Route]) -> ASGIApp:
    """The application that serves a console."""
    files = PageFiles()
    paths = dict.fromkeys(route.path for route in routes)
    answering = [
        StarletteRoute(path, _Endpoint(console, [each for each in routes if each.path == path]))
        for path in paths
    ]
    rest = [
        StarletteRoute("/api/{path:path}", _no_such_api, methods=METHODS),
        StarletteRoute("/{path:path}", files.answer, methods=["GET"]),
    ]
    return Guard(Starlette(routes=[*answering, *rest]), console.access.checks)


async def _no_such_api(request: Request) -> Response:
    return error_response(
        ApiError(HTTPStatus.NOT_FOUND, f"there is no {request.method} {request.url.path}")
    )


class _Endpoint:
    """Answers the requests for one path: an ASGI application, so that Starlette leaves all methods to it."""

    def __init__(self, console: Console, routes: Sequence[Route]) -> None:
        self._console = console
        self._streams = console.streams
        self._routes: dict[str, Route] = {route.method: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        visit: Visit | None = None
        try:
            route = self._route_of(request.method)
            visit = await self._visit(request)
            response = await self._answer(route, request, visit)
        except OttlaError as error:
            response = error_response(api_error_of(error))
        except ClientDisconnect:
            return
        except Exception as error:
            logger.bug("console_failed", "a request failed: this is a bug", error)
            response = error_response(
                ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "the console failed: its log says more")
            )
        for cookie in visit.cookies if visit is not None else ():
            response.headers.append("set-cookie", cookie)
        await response(scope, receive, send)

    def _route_of(self, method: str) -> Route:
        found = self._routes.get(method)
        if found is None:
            raise MethodError(self._routes)
        return found

    async def _visit(self, request: Request) -> Visit:
        peer = "" if request.client is None else request.client.host
        return await self._console.access.visit(request.headers, peer)

    async def _answer(self, route: Route, request: Request, visit: Visit) -> Response:
        access = self._console.access
        # Who may only look may still ask what a change would do.
        least = route.role if route.is_preview is None else min(route.role, Role.VIEWER)
        access.check(visit, request.method, request.headers, least)
        call = await self._call(route, request, visit)
        is_preview = route.is_preview is not None and route.is_preview(call)
        if not is_preview:
            access.check_role(visit, route.role)
        try:
            result = await self._result(route, call)
        except OttlaError as error:
            self._tell_of_change(route, request, visit, is_preview, api_error_of(error))
            raise
        self._tell_of_change(route, request, visit, is_preview, None)
        return response_of(result, visit, self._streams)

    async def _call(self, route: Route, request: Request, visit: Visit) -> Call[Any, Any]:
        query: Any = None
        if route.query is not None:
            query = query_of(route.query, request.query_params.multi_items())
        elif request.query_params:
            raise bad_request("this request has no query parameters")
        body = None
        if route.body is not None:
            body = _body_of(route.body, await _read_body(request, route.max_body_bytes))
        return Call(self._console, visit.identity, request.path_params, query, body, visit)

    async def _result(self, route: Route, call: Call[Any, Any]) -> object:
        result = route.handler(call)
        if not inspect.isawaitable(result):
            return result
        try:
            async with asyncio.timeout(HANDLER_SECONDS) as limit:
                return await result
        except TimeoutError:
            if not limit.expired():
                raise
            raise ApiError(
                HTTPStatus.GATEWAY_TIMEOUT, f"this took more than {HANDLER_SECONDS:.0f} seconds"
            ) from None

    def _tell_of_change(
        self,
        route: Route,
        request: Request,
        visit: Visit,
        is_preview: bool,
        error: ApiError | None,
    ) -> None:
        """Every change, and every one that failed, is in the log; values are not."""
        if route.method == "GET" or route.role is Role.STRANGER or is_preview:
            return
        audit.info(
            "console_change",
            "%(user)s (%(role)s) from %(address)s: %(what)s, %(request)s: %(result)s",
            user=visit.identity.name,
            role=visit.identity.role.title,
            address=visit.address,
            what=route.summary,
            request=f"{route.method} {quote(request.url.path)}"[:MAX_SHOWN_CHARS],
            result="done"
            if error is None
            else f"{error.status.value} {error.message}"[:MAX_SHOWN_CHARS],
        )


async def _read_body(request: Request, max_bytes: int) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body has to be {JSON}")
    too_large = ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {max_bytes} bytes"
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > max_bytes:
                    raise too_large
    except TimeoutError:
        raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "the body comes too slowly") from None
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
