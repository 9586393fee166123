"""Requests to a registry without IO: a generator yields what to send and when to pause, and is given the replies."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from ottla.client.state.backoff import Backoff
from ottla.schemas.config import RegistryConfig
from ottla.schemas.errors import (
    NO_ANSWER,
    RegistryAccessError,
    RegistryUnavailableError,
    registry_error,
)

T = TypeVar("T")

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{CONTENT_TYPE}, application/vnd.schemaregistry+json, application/json"
_MAX_TEXT_CHARS = 300


class Send(NamedTuple):
    """Send a request, and reply with Response or Unreachable."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


class Pause(NamedTuple):
    """Wait, and reply with None."""

    seconds: float


class Response(NamedTuple):
    """What a registry answered."""

    status: int
    body: bytes


class Unreachable(NamedTuple):
    """There was no answer; `was_sent` if the registry may have got the request."""

    reason: str
    was_sent: bool
    is_untrusted: bool = False
    """Whether the registry's certificate was refused, which no repetition changes."""


Step: TypeAlias = Send | Pause
Reply: TypeAlias = Response | Unreachable | None
Exchange: TypeAlias = Generator[Step, Reply, T]


class Requests:
    """Sends requests to the registries in turn, and repeats those that none could answer."""

    def __init__(
        self, config: RegistryConfig, random_unit: Callable[[], float] = random.random
    ) -> None:
        self._config = config
        self._addresses = config.addresses
        self._preferred = 0
        self._backoff = Backoff(config.retries_wait_ms, config.retries_max_wait_ms)
        self._random_unit = random_unit

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Exchange[Any]:
        """The answer, decoded; or the error that the registry, or the lack of one, stands for."""
        pairs = "&".join(f"{name}={_query_text(value)}" for name, value in (query or {}).items())
        target = f"{path}?{pairs}" if pairs else path
        data = None if body is None else json.dumps(body).encode()
        failure: Exception | None = None
        for attempt in range(self._config.max_retries + 1):
            if attempt:
                delay_ms = self._backoff.delay_ms(attempt - 1, self._random_unit())
                yield Pause(delay_ms / 1000)
            for _ in self._addresses:
                address = self._addresses[self._preferred]
                reply = yield Send(method, address + target, self._headers(), data)
                failure = self._failure(method, path, address, reply)
                if failure is None:
                    assert isinstance(reply, Response)
                    return _decoded(reply.body)
                if not _may_repeat(method, reply, failure):
                    raise failure
                self._preferred = (self._preferred + 1) % len(self._addresses)
        assert failure is not None
        raise failure

    def _headers(self) -> dict[str, str]:
        config = self._config
        headers = {"Accept": _ACCEPT, "Content-Type": CONTENT_TYPE, **authorization(config)}
        if config.bearer_auth_token is not None:
            if config.bearer_auth_logical_cluster is not None:
                headers["target-sr-cluster"] = config.bearer_auth_logical_cluster
            if config.bearer_auth_identity_pool_id is not None:
                headers["Confluent-Identity-Pool-Id"] = config.bearer_auth_identity_pool_id
        return headers

    @staticmethod
    def _failure(method: str, path: str, address: str, reply: Reply) -> Exception | None:
        assert reply is not None, "a request has a reply"
        asked = {"request": f"{method} {path}", "registry": address}
        if isinstance(reply, Unreachable) and reply.is_untrusted:
            reason = f"{address} is not trusted: {reply.reason}. Set schema.registry.ssl.truststore.location"
            return RegistryAccessError(NO_ANSWER, 0, reason, {"request": asked["request"]})
        if isinstance(reply, Unreachable):
            reason = f"{address} cannot be reached: {reply.reason}"
            return RegistryUnavailableError(NO_ANSWER, 0, reason, {"request": asked["request"]})
        if 200 <= reply.status < 300:
            return None
        error_code, message = _error_of(reply)
        return registry_error(reply.status, error_code, message, **asked)


def authorization(config: RegistryConfig) -> dict[str, str]:
    """The header of the configured login, if there is one."""
    token = config.bearer_auth_token
    if token is not None:
        return {"Authorization": f"Bearer {token() if callable(token) else token}"}
    if config.user_info is not None:
        credentials = ":".join(config.user_info).encode()
        return {"Authorization": f"Basic {b64encode(credentials).decode()}"}
    return {}


def _may_repeat(method: str, reply: Reply, failure: Exception) -> bool:
    if not isinstance(failure, RegistryUnavailableError):
        return False
    # A delete that was done, and whose answer was lost, would be answered "not found" the second time.
    return method != "DELETE" or (isinstance(reply, Unreachable) and not reply.was_sent)


def _query_text(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(str(value), safe="")


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        text = body[:_MAX_TEXT_CHARS].decode(errors="replace")
        raise registry_error(
            200,
            0,
            f"the answer is no JSON ({text!r}): is schema.registry.url a registry's address?",
        ) from error


def _error_of(response: Response) -> tuple[int, str]:
    """Confluent's number and text; anything else that answers has only its status."""
    text = response.body[:_MAX_TEXT_CHARS].decode(errors="replace").strip()
    try:
        answer = json.loads(response.body)
        return int(answer["error_code"]), str(answer.get("message") or text)
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        return response.status, text or f"HTTP status {response.status}"
