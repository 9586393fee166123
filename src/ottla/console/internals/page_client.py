"""Asks for the pages of a broker's internals: by HTTP, or without a network where the broker started the console."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, TypeVar

import h11
import httpx

from ottla import in_process
from ottla.app.declarations.json_conversion import Converters, MismatchError, load_json
from ottla.console.internals.report import BrokerReport, EventsPage
from ottla.errors import ConfigError, OttlaError
from ottla.schemas.client.exchange import authorization
from ottla.schemas.client.http import httpx_arguments
from ottla.schemas.config import read_registry_config

T = TypeVar("T")

SECONDS: Final = 10.0
MAX_BYTES: Final = 64 << 20
MAX_SHOWN_CHARS: Final = 300
_READ_BYTES: Final = 1 << 16


class InternalsError(OttlaError):
    """The broker does not tell its internals; the text says why."""


class InternalsClient:
    """The two pages; `options` are those of a registry's client: a login and TLS."""

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        settings, security = read_registry_config({**options, "schema.registry.url": url})
        if len(settings.addresses) != 1:
            raise ConfigError(f"the internals are at one address, not {url}")
        self._address = settings.addresses[0]
        self._headers = authorization(settings)
        arguments: dict[str, Any] = {**httpx_arguments(settings, security), "timeout": SECONDS}
        if in_process.is_here(httpx.URL(self._address).host):
            arguments = {"transport": InProcessTransport()}
        self._http = httpx.AsyncClient(**arguments, trust_env=False, follow_redirects=False)

    async def report(self) -> BrokerReport:
        """All sections."""
        return await self._ask("/internals", BrokerReport)

    async def events(self, after: int, limit: int) -> EventsPage:
        """The newest events behind a number."""
        return await self._ask(f"/internals/events?after={after}&limit={limit}", EventsPage)

    async def metrics(self) -> str:
        """The metrics, as Prometheus gets them."""
        return (await self._body_in_time("/metrics")).decode(errors="replace")

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _ask(self, path: str, wanted: type[T]) -> T:
        body = await self._body_in_time(path)
        try:
            found: T = _CONVERTERS.of(wanted)(load_json(body))
        except MismatchError as error:
            raise InternalsError(
                f"the broker tells its internals as this console does not know them: {error}"
            ) from error
        return found

    async def _body_in_time(self, path: str) -> bytes:
        try:
            async with asyncio.timeout(SECONDS):
                return await self._body(path)
        except TimeoutError:
            raise InternalsError("the broker does not tell its internals in time") from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise InternalsError(f"the broker's internals cannot be reached: {reason}") from error

    async def _body(self, path: str) -> bytes:
        url = self._address + path
        async with self._http.stream("GET", url, headers=self._headers) as answer:
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise InternalsError("the broker's internals are too large")
            if answer.status_code != HTTPStatus.OK:
                text = bytes(body[:MAX_SHOWN_CHARS]).decode(errors="replace").strip()
                raise InternalsError(
                    f"the broker does not tell its internals ({answer.status_code}): {text}"
                )
        return bytes(body)


_CONVERTERS: Final = Converters()


class InProcessTransport(httpx.AsyncBaseTransport):
    """HTTP over a connection to a server of this process, or of its parent; one request on each."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it, and read the whole answer."""
        try:
            connected = await in_process.connect(request.url.host)
            reader, writer = await asyncio.open_connection(sock=connected)
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        try:
            return await _converse(request, reader, writer)
        except (OSError, h11.RemoteProtocolError) as error:
            raise httpx.ReadError(str(error), request=request) from error
        finally:
            writer.transport.abort()


async def _converse(
    request: httpx.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> httpx.Response:
    talk = h11.Connection(h11.CLIENT)
    asked = h11.Request(
        method=request.method,
        target=request.url.raw_path,
        headers=[*request.headers.raw, (b"connection", b"close")],
    )
    writer.write((talk.send(asked) or b"") + (talk.send(h11.EndOfMessage()) or b""))
    with suppress(ConnectionResetError):
        await writer.drain()
    head: h11.Response | None = None
    body = bytearray()
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA:
            talk.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BYTES:
                raise InternalsError("the broker's internals are too large")
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return httpx.Response(
                head.status_code, headers=list(head.headers), content=bytes(body), request=request
            )
        elif isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("the connection ended before the answer")
