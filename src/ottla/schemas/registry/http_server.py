"""HTTP: requests are read within limits, matched with a route, answered here or forwarded to the leader."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any, Final
from urllib.parse import unquote

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ottla.doors.login import Login, pause_before_refusal
from ottla.errors import OttlaError
from ottla.events import EventLog
from ottla.schemas.registry import errors
from ottla.schemas.registry.leadership import Leadership
from ottla.schemas.registry.requests import Parameters
from ottla.schemas.registry.routes import LARGE_BYTES, READS, WRITES, Api, Call, Text, match_path
from ottla.schemas.registry.schema_log import SchemaLog, WriteFailedError
from ottla.schemas.registry.service import Written

logger = EventLog("ottla.schemas.registry")

CONTENT_TYPES: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_CONSUMED: Final = (*CONTENT_TYPES, "application/octet-stream")
# JSON may escape every character of a schema.
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
BODY_SECONDS: Final = 20.0
REQUEST_SECONDS: Final = 30.0
READ_OWN_WRITE_SECONDS: Final = 5.0
# Requests with large bodies that are worked on at the same time.
MAX_LARGE_REQUESTS: Final = 8
RETRY_SECONDS: Final = 0.1
LEADER_CHECK_SECONDS: Final = 1.0

# A request that another registry has sent on: it must be answered here.
FORWARDED: Final = "x-ottla-forwarded"
END_OFFSET: Final = "x-ottla-end-offset"


class RegistryServer:
    """The ASGI application."""

    def __init__(
        self,
        api: Api,
        schema_log: SchemaLog,
        leadership: Leadership,
        *,
        login: Login | None,
        trust: ssl.SSLContext | None,
    ) -> None:
        """`trust` is how the certificates of other registries are checked."""
        self._api = api
        self._log = schema_log
        self._leadership = leadership
        self._login = login
        self._client = httpx.AsyncClient(
            timeout=REQUEST_SECONDS, trust_env=False, verify=True if trust is None else trust
        )
        self._large = asyncio.Semaphore(MAX_LARGE_REQUESTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except errors.RegistryError as error:
            response = _error_response(request, error)
        except TimeoutError:
            response = _error_response(request, errors.timed_out("The request timed out"))
        except OttlaError as error:
            response = _error_response(request, errors.store_failed(str(error)))
        except Exception as error:
            logger.error("registry_failed", "a request failed: %(error)s", error=repr(error))
            response = _error_response(
                request, errors.RegistryError(500, 500, "Internal Server Error")
            )
        await response(scope, receive, send)

    async def close(self) -> None:
        """Close the connections to other registries."""
        await self._client.aclose()

    async def _answer(self, request: Request) -> Response:
        if self._login is not None and not self._login.admits(request.headers.get("authorization")):
            await pause_before_refusal()
            raise errors.RegistryError(401, 401, "Unauthorized")
        path, parts = _route_of(request)
        body = await _read_body(request)
        call = Call(parts, Parameters(dict(request.query_params)), body)
        if len(body) < LARGE_BYTES:
            return await self._serve(request, path, call)
        async with self._large:
            return await self._serve(request, path, call)

    async def _serve(self, request: Request, path: str, call: Call) -> Response:
        read = READS.get((request.method, path))
        async with asyncio.timeout(REQUEST_SECONDS):
            if read is not None:
                return _response(request, await read(self._api, call))
            return await self._write(request, path, call)

    # Writing

    async def _write(self, request: Request, path: str, call: Call) -> Response:
        if path == "/subjects/*/versions" and request.method == "POST":
            found = await self._api.find_registered(call)
            if found is not None:
                return _response(request, found.answer)
        is_forwarded = FORWARDED in request.headers
        # Repeating a deletion would say that there is nothing to delete.
        is_repeatable = request.method != "DELETE"
        while True:
            if self._leadership.is_leader:
                try:
                    written = await WRITES[request.method, path](self._api, call)
                    return _written_response(request, written)
                except errors.NotLeaderError:
                    pass
                except WriteFailedError as error:
                    if not is_repeatable:
                        raise errors.timed_out(
                            f"It is not known whether this was deleted, look before you try again: {error}"
                        ) from error
            elif is_forwarded:
                raise errors.NotLeaderError
            else:
                answer = await self._forward(request, call.body, is_repeatable)
                if answer is not None:
                    return answer
            await self._leadership.wait_for_change(RETRY_SECONDS)

    async def _forward(self, request: Request, body: bytes, is_repeatable: bool) -> Response | None:
        """The leader's answer; None if there is no leader that could be asked."""
        url = await self._leadership.leader_url()
        if url is None:
            return None
        headers = {FORWARDED: "true", "content-type": CONTENT_TYPES[0]}
        for name in ("authorization", "accept"):
            if name in request.headers:
                headers[name] = request.headers[name]
        target = url + _raw_path(request)
        if request.url.query:
            target += f"?{request.url.query}"
        try:
            answer = await self._ask(
                url,
                self._client.build_request(request.method, target, content=body, headers=headers),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout):
            return None
        except httpx.HTTPError as error:
            if is_repeatable:
                return None
            raise errors.forwarding_failed(
                f"Error while forwarding the request to the leader: {error!r}"
            ) from error
        if answer.status_code == 500 and _error_code(answer) == errors.NotLeaderError().code:
            return None
        await self._read_own_write(int(answer.headers.get(END_OFFSET, 0)))
        return Response(
            answer.content, answer.status_code, media_type=answer.headers.get("content-type")
        )

    async def _ask(self, leader: str, request: httpx.Request) -> httpx.Response:
        """The answer of a leader, as long as it is the leader: one that is paused would never answer."""
        asking = asyncio.create_task(self._client.send(request))
        try:
            while True:
                done, _ = await asyncio.wait([asking], timeout=LEADER_CHECK_SECONDS)
                if done:
                    return asking.result()
                if await self._leadership.leader_url() != leader:
                    raise httpx.ReadTimeout("another registry was elected", request=request)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _read_own_write(self, end_offset: int) -> None:
        """Wait until this registry knows what it answers, so that the client can read it here."""
        try:
            await asyncio.wait_for(self._log.wait_for(end_offset), READ_OWN_WRITE_SECONDS)
        except TimeoutError:
            logger.warning("registry_is_behind", "this registry is behind its leader")


def _raw_path(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.decode("ascii", "replace").partition("?")[0]


def _route_of(request: Request) -> tuple[str, tuple[str, ...]]:
    # A subject may contain an encoded slash, so the path is divided before it is decoded.
    parts = tuple(unquote(part) for part in _raw_path(request).strip("/").split("/"))
    matches = match_path(parts)
    for path, variable in matches:
        if (request.method, path) in READS or (request.method, path) in WRITES:
            return path, variable
    if matches:
        raise errors.RegistryError(405, 405, "HTTP 405 Method Not Allowed")
    raise errors.RegistryError(404, 404, "HTTP 404 Not Found")


async def _read_body(request: Request) -> bytes:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method in ("POST", "PUT") and given and given not in _CONSUMED:
        raise errors.RegistryError(415, 415, "HTTP 415 Unsupported Media Type")
    chunks = []
    size = 0
    async with asyncio.timeout(BODY_SECONDS):
        async for chunk in request.stream():
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                raise errors.schema_too_large()
            chunks.append(chunk)
    return b"".join(chunks)


def _error_code(answer: httpx.Response) -> int:
    try:
        return int(answer.json()["error_code"])
    except (ValueError, KeyError, TypeError):
        return 0


def _media_type(request: Request) -> str:
    accepted = request.headers.get("accept", "")
    return next((each for each in CONTENT_TYPES if each in accepted), CONTENT_TYPES[0])


def _response(request: Request, answer: Any, status: int = 200) -> Response:
    if not isinstance(answer, Text):
        answer = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
    return Response(answer.encode(errors="replace"), status, media_type=_media_type(request))


def _written_response(request: Request, written: Written) -> Response:
    response = _response(request, written.answer)
    if written.end_offset:
        response.headers[END_OFFSET] = str(written.end_offset)
    return response


def _error_response(request: Request, error: errors.RegistryError) -> Response:
    fields = {"error_code": error.code, "message": error.message}
    response = _response(request, fields, error.status)
    if error.status == 401:
        response.headers["www-authenticate"] = 'Basic realm="schema registry"'
    return response
