"""Asks the schema registry: with short limits, a few requests at a time, and not at all for a while after it failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from ottla.console.http.errors import ApiError
from ottla.console.settings import ConsoleSettings
from ottla.errors import ConfigError
from ottla.schemas.client.aio import AsyncSchemaRegistryClient
from ottla.schemas.client.exchange import Requests
from ottla.schemas.config import read_registry_config
from ottla.schemas.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAccessError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaRegistryError,
)

CONNECT_TIMEOUT_MS: Final = 2_000
READ_TIMEOUT_MS: Final = 8_000
WHOLE_SECONDS: Final = 15.0
MAX_REQUESTS: Final = 8
MAX_WAITING: Final = 200
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
_DEFAULTS: Final[Mapping[str, object]] = {
    "http.connect.timeout.ms": CONNECT_TIMEOUT_MS,
    "http.read.timeout.ms": READ_TIMEOUT_MS,
    "max.retries": 0,
}
_GONE: Final = (
    0,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
NOT_CONFIGURED: Final = "this console has no schema registry"
HOW_TO_CONFIGURE: Final = "start it with --registry URL"


@dataclass(frozen=True)
class RegistryHealth:
    """Whether the registry answers."""

    is_up: bool
    """True before it was asked for the first time."""
    problem: str | None
    since_ms: int | None
    retry_in_ms: int | None
    """When it will be asked again at the earliest."""


class RegistryClient:
    """One for a console; its errors are answers for the browser."""

    def __init__(
        self, url: str, options: Mapping[str, object], now: Callable[[], float] = time.monotonic
    ) -> None:
        config = {**_DEFAULTS, "schema.registry.url": url, **options}
        self._client = AsyncSchemaRegistryClient(config)
        self._requests = Requests(read_registry_config(config)[0])
        self._slots = asyncio.Semaphore(MAX_REQUESTS)
        self._waiting = 0
        self._now = now
        self._problem: str | None = None
        self._since_ms: int | None = None
        self._failures = 0
        self._retry_at = 0.0

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it is, without credentials."""
        return self._client.addresses

    @property
    def health(self) -> RegistryHealth:
        """What is known of it without asking."""
        if self._problem is None:
            return RegistryHealth(is_up=True, problem=None, since_ms=None, retry_in_ms=None)
        left_ms = max(0, int((self._retry_at - self._now()) * 1000))
        return RegistryHealth(
            is_up=False, problem=self._problem, since_ms=self._since_ms, retry_in_ms=left_ms
        )

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """What it answers; SchemaRegistryError if it refuses, ApiError if it does not answer."""
        if self._problem is not None and self._now() < self._retry_at:
            raise self._unavailable()
        if self._waiting >= MAX_WAITING:
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests wait for the schema registry",
                "try again in a moment",
                retry_after_seconds=5,
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(WHOLE_SECONDS), self._slots:
                exchange = self._requests.request(method, path, query=query, body=body)
                answer = await self._client.run(exchange)
        except TimeoutError:
            self._failed(f"it did not answer within {WHOLE_SECONDS:.0f} seconds")
            raise self._unavailable() from None
        except RegistryUnavailableError as error:
            if error.status not in _GONE:
                raise
            self._failed(error.message)
            raise self._unavailable() from error
        except SchemaRegistryError:
            self._answered()
            raise
        finally:
            self._waiting -= 1
        self._answered()
        return answer

    async def ask_or_none(
        self, path: str, query: Mapping[str, str | int | bool] | None = None
    ) -> Any:
        """What it answers to GET; None where there is nothing."""
        try:
            return await self.ask("GET", path, query=query)
        except SchemaNotFoundError:
            return None

    def _answered(self) -> None:
        self._problem = self._since_ms = None
        self._failures = 0

    def _failed(self, reason: str) -> None:
        if self._problem is None:
            self._since_ms = int(time.time() * 1000)
        self._problem = reason
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._retry_at = self._now() + pause

    def _unavailable(self) -> ApiError:
        left = max(1, round(self._retry_at - self._now()))
        return ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"the schema registry does not answer: {self._problem}",
            f"it is asked again in {left} s; everything else of the console goes on",
            retry_after_seconds=left,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def registry_client_of(settings: ConsoleSettings) -> RegistryClient | None:
    """The client of the registry that a console was given; None without one."""
    if settings.registry_url is None:
        return None
    try:
        return RegistryClient(settings.registry_url, settings.registry_options)
    except ConfigError as error:
        raise ConfigError(f"--registry: {error}") from error


def subject_path(subject: str, *rest: str | int) -> str:
    """The path of a subject, or of a part of it."""
    return "/".join(["/subjects", quote(subject, safe=""), *map(str, rest)])


def registry_problem(error: SchemaRegistryError) -> ApiError:
    """The answer to what a registry refused."""
    text = f"the schema registry refuses this: {error.message}"
    match error:
        case SchemaNotFoundError():
            return ApiError(HTTPStatus.NOT_FOUND, error.message)
        case IncompatibleSchemaError():
            return ApiError(HTTPStatus.CONFLICT, text, "change the schema, or the level")
        case InvalidSchemaError():
            return ApiError(HTTPStatus.BAD_REQUEST, text)
        case RegistryAccessError():
            return ApiError(
                HTTPStatus.BAD_GATEWAY,
                text,
                "the console's credentials for the registry do not suffice",
            )
        case RegistryUnavailableError():
            return ApiError(HTTPStatus.BAD_GATEWAY, text, "try again")
    return ApiError(HTTPStatus.CONFLICT, text)
