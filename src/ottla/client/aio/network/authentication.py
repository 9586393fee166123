"""SASL authentication of connections (KIP-152), repeated before the session ends (KIP-368)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ottla.client.aio.network.connection import Connection
from ottla.client.plugins.configured_objects import token_callback_of
from ottla.client.security.mechanisms import (
    Mechanism,
    OAuthBearer,
    Plain,
    Token,
    authentication_error,
)
from ottla.client.security.scram import scram, scram_with_token
from ottla.config.security import OAUTHBEARER, PLAIN, SecurityConfig
from ottla.errors import ErrorCode, FatalError, KafkaError, RetriableError, exception_for
from ottla.event_loop import off_loop
from ottla.wire.declare import info_of
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

log = logging.getLogger("ottla.client")

_NONCE_BYTES = 24
# The version of SaslHandshake after which tokens are sent in SaslAuthenticate requests.
_HANDSHAKE_VERSION = 1
# As in Kafka, a session is renewed after 85 to 95 % of it, so that clients do not renew all at once.
_RENEW_AFTER = 0.85
_RENEW_SPREAD = 0.1
_RETRY_SECONDS = 1.0
# Kafka refuses a renewal that comes sooner after the last one.
SHORTEST_INTERVAL_SECONDS = 1.05


class Authenticator:
    """Authenticates connections with the configured mechanism."""

    def __init__(self, config: SecurityConfig) -> None:
        self._config = config
        self._callback = token_callback_of(config) if config.sasl_mechanism == OAUTHBEARER else None
        self._renewing: set[asyncio.Task[None]] = set()

    async def authenticate(self, connection: Connection) -> None:
        """Authenticate; the session is renewed in time from then on."""
        lifetime_ms = await _exchange(connection, await self._mechanism())
        if lifetime_ms > 0:
            task = asyncio.get_running_loop().create_task(self._renew(connection, lifetime_ms))
            self._renewing.add(task)
            task.add_done_callback(self._renewing.discard)

    async def close(self) -> None:
        """Stop renewing."""
        for task in self._renewing:
            task.cancel()
        await asyncio.gather(*self._renewing, return_exceptions=True)

    async def _renew(self, connection: Connection, lifetime_ms: int) -> None:
        """Renew the session until the connection ends."""
        while lifetime_ms > 0:
            pause = seconds_to_renewal(lifetime_ms, random.random())
            await asyncio.wait({connection.gone}, timeout=pause)
            if connection.closed is not None:
                return
            try:
                lifetime_ms = await self._authenticate_again(connection)
            except KafkaError as error:
                log.warning("authentication was not renewed: %s", error)
                connection.fail(error)
                return

    async def _authenticate_again(self, connection: Connection) -> int:
        mechanism = await self._mechanism_in_time(connection)
        # During the exchange the broker accepts no other requests.
        connection.hold()
        lifetime_ms = await _exchange(connection, mechanism)
        connection.release()
        return lifetime_ms

    async def _mechanism_in_time(self, connection: Connection) -> Mechanism:
        """The mechanism; while the callback for tokens fails with a retriable error, it is called again."""
        while True:
            try:
                return await self._mechanism()
            except RetriableError as error:
                log.warning("%s", error)
                await asyncio.wait({connection.gone}, timeout=_RETRY_SECONDS)
                if connection.closed is not None:
                    raise connection.closed from error

    async def _mechanism(self) -> Mechanism:
        name = self._config.sasl_mechanism
        if self._callback is not None:
            return OAuthBearer(await _token(self._callback))
        credentials = self._config.sasl_credentials
        assert credentials is not None, "the configuration was checked"
        if name == PLAIN:
            return Plain(credentials.username, credentials.password)
        start = scram_with_token if credentials.is_delegation_token else scram
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return start(name, credentials.username, credentials.password, nonce)


def seconds_to_renewal(lifetime_ms: int, random_unit: float) -> float:
    """How long after authentication it is renewed; `random_unit` is from [0, 1)."""
    share = _RENEW_AFTER + _RENEW_SPREAD * random_unit
    return max(lifetime_ms / 1000 * share, SHORTEST_INTERVAL_SECONDS)


async def _exchange(connection: Connection, mechanism: Mechanism) -> int:
    """One exchange; the lifetime of the session in milliseconds, 0 if it has no end."""
    await _handshake(connection, mechanism.name)
    version = connection.version_of(SaslAuthenticateRequest)
    token: bytes | None = mechanism.first()
    lifetime_ms = 0
    while token is not None:
        response = await connection.send_ahead(SaslAuthenticateRequest(auth_bytes=token), version)
        if response.error_code:
            raise _with_context(
                exception_for(response.error_code, response.error_message), connection, mechanism
            )
        lifetime_ms = response.session_lifetime_ms
        try:
            # On a thread: SCRAM hashes for milliseconds, or longer if the broker wants more iterations.
            token = await off_loop(partial(mechanism.respond, response.auth_bytes))
        except FatalError as error:
            raise _with_context(error, connection, mechanism) from None
    return lifetime_ms


async def _handshake(connection: Connection, mechanism: str) -> None:
    if connection.version_of(SaslHandshakeRequest) < _HANDSHAKE_VERSION:
        raise exception_for(
            ErrorCode.UNSUPPORTED_VERSION,
            "The broker is too old: SASL needs Kafka 1.0 or later.",
            api="SaslHandshake",
            broker=str(connection.endpoint),
        )
    request = SaslHandshakeRequest(mechanism=mechanism)
    response = await connection.send_ahead(request, _HANDSHAKE_VERSION)
    if not response.error_code:
        return
    message = None
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(response.mechanisms) or "none"
        message = f"The broker does not offer {mechanism}; it offers {enabled}."
    elif response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        message = "The broker expects no SASL on this port: see security.protocol."
    raise exception_for(
        response.error_code, message, api="SaslHandshake", broker=str(connection.endpoint)
    )


async def check_needs_no_sasl(connection: Connection) -> None:
    """Raise if the broker expects SASL: such a one answers ApiVersions, and hangs up at the next request."""
    spoken = connection.versions.get(info_of(SaslHandshakeRequest).api_key)
    if spoken is None or spoken.max_version < _HANDSHAKE_VERSION:
        return
    response = await connection.send(SaslHandshakeRequest(mechanism=""), _HANDSHAKE_VERSION)
    if response.error_code != ErrorCode.ILLEGAL_SASL_STATE:
        offered = ", ".join(response.mechanisms) or "no mechanism"
        raise exception_for(
            ErrorCode.ILLEGAL_SASL_STATE,
            f"The broker expects SASL on this port ({offered}): set security.protocol to "
            "SASL_PLAINTEXT or SASL_SSL, or use another port.",
            api="SaslHandshake",
            broker=str(connection.endpoint),
        )


def _with_context(error: KafkaError, connection: Connection, mechanism: Mechanism) -> KafkaError:
    context = {
        "api": "SaslAuthenticate",
        "mechanism": mechanism.name,
        "broker": str(connection.endpoint),
    }
    return type(error)(error.code, error.message, context)


async def _token(callback: Callable[[], Any]) -> Token:
    """Call the user's function for a token; one that is no coroutine function may block, and runs on a thread."""
    try:
        if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
            getattr(callback, "__call__", None)  # noqa: B004
        ):
            found = await callback()
        else:
            found = await off_loop(callback)
            if inspect.isawaitable(found):
                found = await found
    except KafkaError:
        raise
    except OSError as error:
        # The token server cannot be reached now: retriable.
        raise exception_for(
            ErrorCode.NETWORK_EXCEPTION, f"The callback for tokens failed: {error!r}."
        ) from error
    except Exception as error:
        raise authentication_error(f"The callback for tokens raised {error!r}.") from error
    return _read_token(found)


def _read_token(found: object) -> Token:
    match found:
        case str():
            return Token(found)
        case (str() as value, Mapping() as extensions):
            return Token(value, extensions)
    raise authentication_error(
        f"The callback for tokens returned {type(found).__name__}: "
        "it must return the token as text, or the token and a dictionary of SASL extensions."
    )
