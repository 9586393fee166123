"""The gate of a connection with SASL: nothing but a login passes it until the client has authenticated itself.

The order is Kafka's: ApiVersions at most once, SaslHandshake, then the messages of the mechanism, in SaslAuthenticate
requests or, after SaslHandshake v0, as frames of their own. A session that ends closes the gate again: the next request
has to be a SaslHandshake (KIP-368).
"""

from __future__ import annotations

import struct
from collections.abc import Coroutine, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.access import Principal
from ottla.broker.requests.api import Api
from ottla.broker.requests.request import CloseConnectionError, RequestContext
from ottla.broker.security.caller import Caller
from ottla.broker.security.login_exchanges import Exchange
from ottla.broker.security.sasl_listener import SaslListener
from ottla.core.security.sasl_outcomes import Authenticated, Challenge, Outcome, Rejected
from ottla.core.security.session_lifetime import session_lifetime_ms
from ottla.errors import ErrorCode
from ottla.ports import Buffer
from ottla.wire.compile import decode_message
from ottla.wire.framing import (
    API_VERSIONS_KEY,
    frame_response,
    read_request_header,
    read_request_start,
)
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

HANDSHAKE_KEY: Final = 17
AUTHENTICATE_KEY: Final = 36
# The first version of SaslHandshake that announces SaslAuthenticate requests.
FIRST_VERSION_WITH_REQUESTS: Final = 1
# ApiVersions and SaslHandshake have names in them, and no more.
MAX_HANDSHAKE_BYTES: Final = 8 << 10
# What a SaslAuthenticate request has around its message: the longest client id, and some numbers.
MAX_HEADER_BYTES: Final = 1 << 10
MIN_SECONDS_BETWEEN_REAUTHENTICATIONS: Final = 1.0
_SIZE: Final = struct.Struct(">i")


class State(Enum):
    """What a client may send."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    EXCHANGE = auto()
    OTHER_MECHANISM = auto()  # asked for at a reauthentication: the next message fails
    OPEN = auto()
    FAILED = auto()


class Answer(NamedTuple):
    """Bytes for the client."""

    parts: list[Buffer]


class LoginFailed(NamedTuple):
    """The connection ends after a delay, with an answer where the protocol has one."""

    parts: list[Buffer] | None
    delay_seconds: float


Step: TypeAlias = Answer | LoginFailed
LaterStep: TypeAlias = Coroutine[Any, Any, Step]


class _Asked(NamedTuple):
    """A SaslAuthenticate request; a message without one has no header."""

    version: int
    correlation_id: int


class SaslGate:
    """The gate of one connection."""

    def __init__(
        self, listener: SaslListener, apis: Mapping[int, Api[Any, Any]], caller: Caller
    ) -> None:
        self._listener = listener
        self._apis = apis
        self._caller = caller
        self._clock = listener.node.cluster.clock
        self._state = State.VERSIONS_OR_HANDSHAKE
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._has_requests = True  # messages are in SaslAuthenticate requests
        self._is_reauthentication = False
        self._began_at = float("-inf")  # the last reauthentication
        self._ends_at: float | None = None  # the session

    @property
    def is_open(self) -> bool:
        """Whether requests pass; `take` has to see them all the same if the session ends some time."""
        return self._state is State.OPEN

    @property
    def session_ends(self) -> bool:
        return self._ends_at is not None

    @property
    def frame_limits(self) -> tuple[int, int]:
        """The smallest and the largest frame that a client may send before it has authenticated itself."""
        largest = self._listener.settings.max_receive_bytes
        if self._state is not State.EXCHANGE or self._exchange is None:
            return 0, min(MAX_HANDSHAKE_BYTES, largest)
        return 0, min(self._exchange.max_message_bytes + MAX_HEADER_BYTES, largest)

    def take(self, frame: memoryview) -> Step | LaterStep | None:
        """What a frame leads to; None if it passes.

        CloseConnectionError and MalformedMessageError end the connection without an answer.
        """
        if self._state is State.OPEN:
            return self._take_of_session(frame)
        if self._state is State.EXCHANGE:
            return self._take_message(frame)
        if self._state is State.OTHER_MECHANISM:
            return self._fail(Rejected("another mechanism than before"), None)
        return self._take_handshake(frame)

    # A session that ends.

    def _take_of_session(self, frame: memoryview) -> Step | LaterStep | None:
        api_key, _, _ = read_request_start(frame)
        now = self._clock.monotonic_seconds()
        if (
            api_key == HANDSHAKE_KEY
            and now - self._began_at >= MIN_SECONDS_BETWEEN_REAUTHENTICATIONS
        ):
            self._began_at = now
            self._is_reauthentication = True
            return self._take_handshake(frame)
        if self._ends_at is not None and now > self._ends_at:
            self._listener.counts.expired_sessions += 1
            raise CloseConnectionError(
                f"the session of {self._caller.principal} has ended, and the client did not authenticate again"
            )
        return None

    # SaslHandshake, and ApiVersions before it.

    def _take_handshake(self, frame: memoryview) -> Step | LaterStep | None:
        api_key, version, correlation_id = read_request_start(frame)
        if api_key == API_VERSIONS_KEY and self._state is State.VERSIONS_OR_HANDSHAKE:
            return self._answer_versions(frame, version, correlation_id)
        if api_key != HANDSHAKE_KEY:
            return self._fail(
                Rejected(
                    f"{self._name_of(api_key)} before the login; clients set security.protocol"
                ),
                None,
            )
        api = self._apis[HANDSHAKE_KEY]
        if not api.first_version <= version <= api.last_version:
            raise CloseConnectionError(f"SaslHandshake v{version} is not served")
        header = read_request_header(frame, version >= api.flexible_since)
        asked = decode_message(api.request, version, frame, header.body_position).mechanism
        mechanisms = list(self._listener.settings.mechanisms)
        exchange = self._listener.exchange(asked)
        if exchange is None:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms
            )
            rejected = Rejected("the mechanism is not enabled")
            self._mechanism = asked
            return self._fail(rejected, frame_response(response, version, correlation_id))
        self._has_requests = version >= FIRST_VERSION_WITH_REQUESTS
        if self._is_reauthentication and asked != self._mechanism:
            self._state = State.OTHER_MECHANISM
        else:
            self._mechanism, self._exchange = asked, exchange
            self._state = State.EXCHANGE
        response = SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=mechanisms)
        return Answer(frame_response(response, version, correlation_id))

    def _name_of(self, api_key: int) -> str:
        api = self._apis.get(api_key)
        return f"a request of API {api_key}" if api is None else f"a request {api.name}"

    def _answer_versions(self, frame: memoryview, version: int, correlation_id: int) -> Answer:
        """Answers ApiVersions; after an error the client may ask once more."""
        api = self._apis[API_VERSIONS_KEY]
        node = self._listener.node
        if not api.first_version <= version <= api.last_version:
            context = RequestContext(version, None, self._caller)
            response: Any = api.handle(node, None, context)
            return Answer(frame_response(response, 0, correlation_id))
        header = read_request_header(frame, version >= api.flexible_since)
        request = decode_message(api.request, version, frame, header.body_position)
        context = RequestContext(version, header.client_id, self._caller)
        response = api.handle(node, request, context)
        if response.error_code == ErrorCode.NONE:
            self._state = State.HANDSHAKE
        return Answer(frame_response(response, version, correlation_id))

    # The messages of the mechanism.

    def _take_message(self, frame: memoryview) -> Step | LaterStep:
        if not self._has_requests:
            return self._evaluate(bytes(frame), None)
        api_key, version, correlation_id = read_request_start(frame)
        if api_key != AUTHENTICATE_KEY:
            return self._refuse_other_request(api_key, version, correlation_id)
        api = self._apis[AUTHENTICATE_KEY]
        if not api.first_version <= version <= api.last_version:
            raise CloseConnectionError(f"SaslAuthenticate v{version} is not served")
        header = read_request_header(frame, version >= api.flexible_since)
        request = decode_message(api.request, version, frame, header.body_position)
        return self._evaluate(bytes(request.auth_bytes), _Asked(version, correlation_id))

    def _refuse_other_request(self, api_key: int, version: int, correlation_id: int) -> LoginFailed:
        """Refuses a request between two messages. Kafka answers each API with its error; these two are worth it."""
        rejected = Rejected(f"{self._name_of(api_key)} during the login")
        api = self._apis.get(api_key)
        if api is None or not api.first_version <= version <= api.last_version:
            return self._fail(rejected, None)
        error = ErrorCode.ILLEGAL_SASL_STATE
        response: Any
        if api_key == HANDSHAKE_KEY:
            response = SaslHandshakeResponse(error_code=error, mechanisms=[])
        elif api_key == API_VERSIONS_KEY:
            response = ApiVersionsResponse(error_code=error, api_keys=[])
        else:
            return self._fail(rejected, None)
        return self._fail(rejected, frame_response(response, version, correlation_id))

    def _evaluate(self, message: bytes, asked: _Asked | None) -> Step | LaterStep:
        assert self._exchange is not None
        if not self._is_reauthentication and self._listener.has_too_many_failures(
            self._caller.peer.host
        ):
            # Else an address could guess by as many connections as it has made beforehand.
            raise CloseConnectionError("too many logins from its address have failed")
        evaluation = self._exchange.evaluate(message)
        if isinstance(evaluation, Challenge | Authenticated | Rejected):
            return self._follow(evaluation, asked)
        return self._follow_later(evaluation, asked)

    async def _follow_later(
        self, evaluation: Coroutine[Any, Any, Outcome], asked: _Asked | None
    ) -> Step:
        return self._follow(await evaluation, asked)

    def _follow(self, outcome: Outcome, asked: _Asked | None) -> Step:
        if isinstance(outcome, Challenge):
            return _answer(outcome.data, asked)
        if isinstance(outcome, Authenticated):
            return self._succeed(outcome, asked)
        return self._reject(outcome, asked)

    def _succeed(self, outcome: Authenticated, asked: _Asked | None) -> Step:
        caller, listener = self._caller, self._listener
        principal = Principal.user(outcome.user)
        if self._is_reauthentication and principal != caller.principal:
            before = caller.principal
            text = (
                f"Cannot change principals during re-authentication from {before.kind}.{before.name}: "
                f"{principal.kind}.{principal.name}"
            )
            return self._reject(Rejected("another principal than before", text), asked)
        lifetime_ms = session_lifetime_ms(
            listener.settings.max_reauth_ms[self._mechanism],
            outcome.expires_at_ms,
            self._clock.now_ms(),
        )
        now = self._clock.monotonic_seconds()
        self._ends_at = None if lifetime_ms is None else now + lifetime_ms / 1000
        caller.principal = principal
        if self._is_reauthentication:
            listener.counts.reauthentication_succeeded += 1
        else:
            listener.counts.succeeded += 1
        listener.node.audit.logged_in(caller, self._mechanism)
        self._exchange = None
        self._is_reauthentication = False
        self._state = State.OPEN
        return _answer(outcome.data, asked, lifetime_ms or 0)

    def _reject(self, outcome: Rejected, asked: _Asked | None) -> LoginFailed:
        if asked is None:
            return self._fail(outcome, None)
        what = "re-authentication" if self._is_reauthentication else "authentication"
        text = outcome.message or (
            f"Authentication failed during {what} due to invalid credentials "
            f"with SASL mechanism {self._mechanism}"
        )
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b""
        )
        return self._fail(outcome, frame_response(response, *asked))

    def _fail(self, rejected: Rejected, parts: list[Buffer] | None) -> LoginFailed:
        listener, caller = self._listener, self._caller
        if self._is_reauthentication:
            listener.counts.reauthentication_failed += 1
        else:
            listener.counts.failed += 1
        claimed = None if self._exchange is None else self._exchange.claimed_user
        listener.node.audit.login_failed(
            caller, self._mechanism or "no mechanism", claimed, rejected.reason
        )
        self._state = State.FAILED
        return LoginFailed(parts, listener.delay_of_failure(caller.peer.host))


def _answer(data: bytes, asked: _Asked | None, lifetime_ms: int = 0) -> Answer:
    if asked is None:
        return Answer([_SIZE.pack(len(data)) + data])
    response = SaslAuthenticateResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        auth_bytes=data,
        session_lifetime_ms=lifetime_ms,
    )
    return Answer(frame_response(response, *asked))
