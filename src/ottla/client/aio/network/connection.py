"""One connection to a broker: sends frames, and matches answers to requests, in order."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from ottla.client.model import VersionRange
from ottla.client.security.failures import is_tls, not_kafka, tls_expected, tls_failure
from ottla.errors import ErrorCode, KafkaError, TimedOutError, exception_for
from ottla.model import Endpoint
from ottla.records.client_kernel import FrameMemory
from ottla.wire.declare import info_of
from ottla.wire.framing import SIZE_BYTES, read_size, request_parts
from ottla.wire.response_decoders import CORRELATION_ID, Decode, decoder_of
from ottla.wire.types import Buffer, MalformedMessageError

_SMALL_BUFFER_BYTES = 64 * 1024
# A frame may claim any size: beyond this one, memory is allocated as the bytes arrive.
_TRUSTED_BYTES = 16 * 1024 * 1024
_SHORTEST_ANSWER_BYTES = 4
_CORRELATION_IDS = 2**31 - 1
# The first request of every connection.
_FIRST_API = "ApiVersions"
# How long `close` leaves the operating system to take requests without answers (acks=0).
_LAST_WRITES_SECONDS = 2.0

# A group's coordinator has a connection of its own (as in Kafka's client): a heartbeat must not wait behind a
# fetch that the broker holds back until there are records. Its node id counts down from here.
COORDINATOR_IDS = 2**31 - 1


class _Waiting(NamedTuple):
    """A request whose answer has not come."""

    correlation_id: int
    api: str
    decode: Decode
    answer: asyncio.Future[Any]
    deadline: float
    sent: float


class _Held(NamedTuple):
    """A request that is held back during authentication."""

    frame: list[Buffer]
    waiting: _Waiting | None


class Connection(asyncio.BufferedProtocol):
    """Sends requests in the order of the calls, and completes each with its answer.

    An answer owns the bytes that it refers to. When the connection breaks, or a request is not answered in time, all
    requests in flight fail, and nothing more can be sent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        node_id: int,
        client_id: str | None,
        request_timeout_ms: float,
        on_lost: Callable[[Connection, KafkaError], None],
        protocol: str = "PLAINTEXT",
    ) -> None:
        self.endpoint = endpoint
        self.node_id = node_id
        self.versions: Mapping[int, VersionRange] = {}
        self.closed: KafkaError | None = None
        """Why the connection has ended; None while it is open."""
        self.ended_before_serving = False
        """Whether the broker has ended it without an answer to more than ApiVersions."""
        self.last_used = 0.0
        self.throttled_until = 0.0
        """The loop's time before which the broker wants no requests (KIP-219)."""
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._on_lost = on_lost
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the socket is closed."""
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()
        self._held: list[_Held] | None = None
        self._next_id = 0
        self._answers = 0
        self._serves = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._buffer = bytearray(_SMALL_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self._large_size = 0

    # Requests

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        held = 0 if self._held is None else sum(each.waiting is not None for each in self._held)
        return len(self._waiting) + held

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of requests the operating system has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def version_of(self, request_class: type[Any], at_most: int | None = None) -> int:
        """The newest version of a request that both sides speak."""
        info = info_of(request_class)
        spoken = self.versions.get(info.api_key)
        highest = info.versions.last if at_most is None else min(info.versions.last, at_most)
        if spoken is not None:
            highest = min(highest, spoken.max_version)
            if highest >= max(spoken.min_version, info.versions.first):
                return highest
        theirs = "none" if spoken is None else f"{spoken.min_version} to {spoken.max_version}"
        raise exception_for(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The broker speaks {theirs} of the versions {info.versions.first} to "
            f"{info.versions.last if at_most is None else at_most} that are needed.",
            **self._context(_api_name(request_class)),
        )

    def send(
        self, request: Any, version: int, timeout_ms: float | None = None
    ) -> asyncio.Future[Any]:
        """Send now; the future gets the answer, or the error."""
        return self.send_decoding(request, version, decoder_of(type(request), version), timeout_ms)

    def send_decoding(
        self, request: Any, version: int, decode: Decode, timeout_ms: float | None = None
    ) -> asyncio.Future[Any]:
        """As `send`, with a decoder for the answer."""
        api = _api_name(type(request))
        if self.closed is not None:
            return self._failed(api)
        frame, correlation_id = self._frame(request, version)
        waiting = self._expect(correlation_id, api, decode, timeout_ms)
        if self._held is not None:
            self._held.append(_Held(frame, waiting))
        else:
            self._waiting.append(waiting)
            self._write(frame)
        self.last_used = waiting.sent
        return waiting.answer

    def send_unanswered(self, request: Any, version: int) -> None:
        """Send a request that the broker will not answer: Produce with acks=0."""
        if self.closed is not None:
            raise self._lost_error(_api_name(type(request)))
        frame, _ = self._frame(request, version)
        if self._held is not None:
            self._held.append(_Held(frame, None))
        else:
            self._write(frame)
        self.last_used = self._loop.time()

    def hold(self) -> None:
        """Hold requests back until `release`, except those of `send_ahead`."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Send the requests that were held back, in the order of the calls."""
        held, self._held = self._held, None
        for frame, waiting in held or ():
            if waiting is not None:
                self._waiting.append(waiting)
            self._write(frame)

    def send_ahead(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Send a request of the authentication, ahead of those that are held back."""
        api = _api_name(type(request))
        if self.closed is not None:
            return self._failed(api)
        frame, correlation_id = self._frame(request, version)
        waiting = self._expect(correlation_id, api, decoder_of(type(request), version), None)
        self._waiting.append(waiting)
        self._write(frame)
        return waiting.answer

    def _frame(self, request: Any, version: int) -> tuple[list[Buffer], int]:
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) % _CORRELATION_IDS
        return request_parts(request, version, correlation_id, self._client_id), correlation_id

    def _expect(
        self, correlation_id: int, api: str, decode: Decode, timeout_ms: float | None
    ) -> _Waiting:
        now = self._loop.time()
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = now + limit_ms / 1000
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)
        answer: asyncio.Future[Any] = self._loop.create_future()
        return _Waiting(correlation_id, api, decode, answer, deadline, now)

    def _failed(self, api: str) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self._loop.create_future()
        answer.set_exception(self._lost_error(api))
        # Retrieved here, or the loop would log it if the caller was cancelled.
        answer.exception()
        return answer

    def _write(self, frame: list[Buffer]) -> None:
        assert self._transport is not None, "requests are sent after the connection was made"
        if self._transport.is_closing():
            # The requests fail in `connection_lost`. asyncio's `writelines` would not look.
            return
        if len(frame) == 1:
            self._transport.write(frame[0])
        else:
            self._transport.writelines(frame)

    @property
    def tcp_socket(self) -> socket.socket:
        """The socket, to set its options."""
        assert self._transport is not None
        found: socket.socket = self._transport.get_extra_info("socket")
        return found

    # Answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.last_used = self._loop.time()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is not None:
            self._large_updated(nbytes)
            return
        end = self._filled + nbytes
        at = 0
        while end - at >= SIZE_BYTES:
            (size,) = read_size(self._view, at)
            start = at + SIZE_BYTES
            if not self._answers and is_tls(bytes(self._view[at:start])):
                self._end(tls_expected(self._broker_name()))
                return
            stranger = not_kafka(bytes(self._view[at:start])) if not self._answers else None
            if stranger is not None or size < _SHORTEST_ANSWER_BYTES:
                self._broken(stranger or f"it sent a frame of {size} bytes, which no answer has")
                return
            if start + size > end:
                if SIZE_BYTES + size > _SMALL_BUFFER_BYTES:
                    # The rest is received in place: an answer with records is not copied again.
                    self._large = memoryview(FrameMemory(min(size, _TRUSTED_BYTES)))
                    self._large_size = size
                    self._large_filled = end - start
                    self._large[: self._large_filled] = self._view[start:end]
                    at = end
                break
            self._answered(memoryview(bytes(self._view[start : start + size])))
            if self.closed is not None:
                return
            at = start + size
        self._filled = end - at
        if at and self._filled:
            self._buffer[: self._filled] = self._buffer[at:end]

    def _large_updated(self, nbytes: int) -> None:
        assert self._large is not None
        self._large_filled += nbytes
        if self._large_filled == self._large_size:
            frame, self._large = self._large, None
            self._answered(frame)
        elif self._large_filled == len(self._large):
            # The loop still holds a view of the buffer, so it cannot grow in place.
            larger = memoryview(FrameMemory(min(self._large_size, 2 * len(self._large))))
            larger[: self._large_filled] = self._large
            self._large = larger

    def _answered(self, frame: memoryview) -> None:
        if not self._waiting:
            self._broken("it answered a request that was not sent")
            return
        (correlation_id,) = CORRELATION_ID.unpack_from(frame)
        waiting = self._waiting[0]
        if correlation_id != waiting.correlation_id:
            self._broken(f"it answered {correlation_id} where {waiting.correlation_id} was next")
            return
        try:
            response = waiting.decode(frame)
        except (MalformedMessageError, struct.error, IndexError, ValueError) as error:
            self._broken(f"its answer to {waiting.api} makes no sense: {error}")
            return
        self._waiting.popleft()
        self._answers += 1
        # A broker that does not know the newest ApiVersions answers it twice.
        self._serves = self._serves or waiting.api != _FIRST_API
        self.last_used = now = self._loop.time()
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            # A later answer does not shorten the pause.
            self.throttled_until = max(self.throttled_until, now + throttle_ms / 1000)
        if not waiting.answer.done():
            waiting.answer.set_result(response)

    # The end

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended_before_serving = self.closed is None and not self._serves
        if isinstance(exc, ssl.SSLError):
            # With TLS 1.3 the broker checks our certificate after the handshake has ended for us.
            self._end(tls_failure(exc, self._broker_name()))
        elif exc is not None:
            self._broken(f"the connection broke: {exc}")
        elif not self._serves:
            self._broken(
                "the broker closed the connection at once; perhaps it does not expect "
                f"security.protocol={self._protocol} on this port"
            )
        else:
            self._broken("the broker closed the connection")
        if not self.gone.done():
            self.gone.set_result(None)

    def close(self, why: str = "the client was closed") -> None:
        """Close; requests in flight fail, bytes that were written before are still sent."""
        transport = self._transport
        if self.closed is None and transport is not None and transport.get_write_buffer_size():
            self._loop.call_later(_LAST_WRITES_SECONDS, transport.abort)
            self._transport = None
            transport.close()
        self._broken(why)

    def fail(self, error: KafkaError) -> None:
        """Close; requests in flight get this error."""
        self._end(error)

    def _broken(self, why: str) -> None:
        self._end(
            exception_for(
                ErrorCode.NETWORK_EXCEPTION, f"No answer: {why}.", broker=self._broker_name()
            )
        )

    def _end(self, error: KafkaError) -> None:
        if self.closed is not None:
            return
        self.closed = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        held, self._held = self._held, None
        self._waiting.extend(each.waiting for each in held or () if each.waiting is not None)
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                waiting.answer.set_exception(self._lost_error(waiting.api))
                # Retrieved here, or the loop would log it if the caller was cancelled.
                waiting.answer.exception()
        self._on_lost(self, error)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._check_timeouts)

    def _check_timeouts(self) -> None:
        self._timer = None
        now = self._loop.time()
        held = [each.waiting for each in self._held or () if each.waiting is not None]
        late = [waiting for waiting in (*self._waiting, *held) if waiting.deadline <= now]
        if late:
            waited_ms = round((now - late[0].sent) * 1000)
            message = f"{late[0].api} was not answered within {waited_ms} ms."
            if late[0].api == _FIRST_API:
                message = f"It accepts connections but does not answer as a Kafka broker: {message}"
            # As in Kafka's client, the connection is given up: the broker may be stuck.
            self._end(TimedOutError(message=message, context={"broker": self._broker_name()}))
        elif self._waiting or held:
            self._set_timer(min(waiting.deadline for waiting in (*self._waiting, *held)))

    def _lost_error(self, api: str) -> KafkaError:
        assert self.closed is not None
        return type(self.closed)(self.closed.code, self.closed.message, self._context(api))

    def _context(self, api: str) -> dict[str, object]:
        return {"api": api, "broker": self._broker_name()}

    def _broker_name(self) -> str:
        if self.node_id < 0:
            return str(self.endpoint)
        is_coordinator = self.node_id > COORDINATOR_IDS // 2
        node_id = COORDINATOR_IDS - self.node_id if is_coordinator else self.node_id
        return f"{node_id} at {self.endpoint}"


def _api_name(request_class: type[Any]) -> str:
    return request_class.__name__.removesuffix("Request")
