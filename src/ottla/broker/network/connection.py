"""A client's connection: frames in, responses out in the order of the requests, memory bounded on both sides.

All connections of a loop receive into one shared buffer, because every complete frame is handled before the next
receive. Only bytes that cannot be handled yet go to a buffer of the connection (`frame_buffer.py`): the rest of an
incomplete frame, and frames that wait because the connection has had its turn. A request with many elements is answered
in slices (`large_request.py`); meanwhile its connection handles no other.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.network.frame_buffer import SMALLEST_ROOM_BYTES, FrameBuffer
from ottla.broker.network.listener import Listener
from ottla.broker.network.piecewise_transport import PiecewiseTransport, without_copies
from ottla.broker.network.receive_buffers import Buffers
from ottla.broker.network.refusal_log import RefusalLog
from ottla.broker.network.response_queue import (
    MAX_UNSENT_BYTES,
    PendingResponse,
    ResponseQueue,
)
from ottla.broker.network.unfinished_frames import UnfinishedFrames
from ottla.broker.node import Node
from ottla.broker.requests.api import Api
from ottla.broker.requests.delivered_response import DeliveredResponse, PlacedRequest
from ottla.broker.requests.large_request import (
    DIVIDED_FRAME_BYTES,
    SLICED_FRAME_BYTES,
    Framed,
    answer_large,
    frame_in_slices,
)
from ottla.broker.requests.metering import charged_in_the_end, metered, timed
from ottla.broker.requests.plain_answers import PlainHandler
from ottla.broker.requests.request import (
    NO_REPLY,
    CloseConnectionError,
    NoReply,
    NotMadeError,
    Reply,
    RequestContext,
)
from ottla.broker.security.caller import Caller
from ottla.broker.security.connection_rates import BUSY, OVER_QUOTA
from ottla.broker.security.listener_tls import UnmappedNameError
from ottla.broker.security.quotas import RequestMeter
from ottla.broker.security.sasl_gate import Answer, LaterStep, LoginFailed, SaslGate, Step
from ottla.events import EventLog
from ottla.model import Endpoint
from ottla.ports import Buffer
from ottla.wire.compile import decode_in_slices, decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import (
    API_VERSIONS_KEY,
    SIZE_BYTES,
    read_request_header,
    read_request_start,
    read_size,
)
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.types import MalformedMessageError

logger = EventLog(__name__)

SMALLEST_FRAME_BYTES = 8
# One receive takes at most this much while connections wait for memory.
SCARCE_RECEIVE_BYTES = 16 << 10
# One receive before the client has authenticated itself, and the room for the beginning of a frame.
LOGIN_RECEIVE_BYTES = 16 << 10
LOGIN_ROOM_BYTES = 1 << 10
# Between the answer to a failed login and the end of the connection.
LINGER_SECONDS = 0.1
# While small frames are handled, the clock is read once per this many bytes.
BYTES_PER_CHECK = DIVIDED_FRAME_BYTES
# The most bytes of requests that are answered together: of small ones fewer, which take longer for their bytes.
PLAIN_BYTES = 1 << 20
PLAIN_BYTES_IF_SMALL = 16 << 10
PLAIN_REQUESTS_IF_LARGE = 16
NOWHERE = Endpoint("", 0)
PRODUCE_KEY = info_of(ProduceRequest).api_key
# Kafka does not count the time of requests of brokers and of the login.
FREE_OF_CHARGE = frozenset(
    info_of(request).api_key
    for request in (SaslAuthenticateRequest, SaslHandshakeRequest, WriteTxnMarkersRequest)
)
_REFUSED = "connection from %(peer)s refused: %(reason)s"
_CLOSED = "connection from %(peer)s closed: %(reason)s"
_FOREIGN_PROTOCOLS = (
    (b"\x16\x03", "a TLS handshake (this port speaks plaintext: set security.protocol=PLAINTEXT)"),
    (b"GET ", "an HTTP request"),
    (b"POST", "an HTTP request"),
    (b"PUT ", "an HTTP request"),
    (b"HEAD", "an HTTP request"),
    (b"OPTI", "an HTTP request"),
    (b"SSH-", "an SSH client"),
)


class Traffic:
    """Counts a node's connections and their bytes."""

    __slots__ = ("accepted", "faulted", "received_bytes", "refused", "sent_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0
        self.accepted = 0
        self.refused = 0  # by a limit
        self.faulted = 0  # closed because of what the client sent


class Host(Protocol):
    """What a connection needs from its server."""

    @property
    def node(self) -> Node: ...

    @property
    def apis(self) -> Mapping[int, Api[Any, Any]]: ...

    @property
    def receive_buffer(self) -> memoryview: ...

    @property
    def buffers(self) -> Buffers: ...

    @property
    def share(self) -> LoopShare: ...

    @property
    def unfinished(self) -> UnfinishedFrames: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def max_frame_bytes(self) -> int: ...

    @property
    def refusals(self) -> RefusalLog: ...

    def admit(self, connection: Connection) -> str | None:
        """Why the connection is refused; None if it is admitted."""
        ...

    def hold(self, connection: Connection) -> bool:
        """Takes note of a connection that will be closed; False if there are too many of them."""
        ...

    def forget(self, connection: Connection) -> None: ...

    def gate_for(self, connection: Connection) -> SaslGate:
        """The gate of an admitted connection of a listener with SASL."""
        ...

    def login_over(self, connection: Connection) -> None:
        """The client has authenticated itself, or has failed."""
        ...

    def now(self) -> float: ...

    def note_receive(self) -> float:
        """The time; what has to be known before requests are handled is known from now on."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, host: Host, listener: Listener) -> None:
        self._host = host
        self.listener = listener
        self._share = host.share
        self._traffic = host.traffic
        self._apis = host.apis
        self._transport: asyncio.Transport | None = None
        self.caller = Caller(NOWHERE, NOWHERE, listener.name)
        self._buffer = FrameBuffer(host.buffers, host.unfinished, self)
        self._in_line = False  # complete frames wait for their turn
        self._has_waited = False  # and this is that turn
        self._unsettled = host.node.unsettled
        self._waits_for_room = False  # with a Produce request, for the engine to settle others
        self._responses = ResponseQueue()
        # Of the last request; most that follow have the same.
        self._context = RequestContext(0, None, self.caller)
        self._write_paused = False
        self._busy = False  # a coroutine handler is at work, and the next request waits for it
        self._reading_paused = False
        self._gate: SaslGate | None = None
        self._is_login = False  # only a login passes the gate
        self._login_step: asyncio.Future[Step] | asyncio.TimerHandle | None = None
        self._draining = False
        self._batching = False
        self._quotas = host.node.quotas.table
        self._answers_plain = True  # where an API does
        # By the broker's clock; 0 while it may send requests.
        self._muted_until_ms = 0
        self._is_refused = False  # and closed when it is no longer muted
        self._end_of_mute: asyncio.TimerHandle | None = None
        self.last_active = 0.0

    @property
    def peer(self) -> Endpoint:
        """The client's address."""
        return self.caller.peer

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = without_copies(transport)
        self._locate(transport)
        self.last_active = self._host.now()
        rates = self._host.node.connection_rates
        excess_ms = 0 if self.caller.is_node else rates.excess_ms(self.caller.peer.host)
        if excess_ms:
            self._refuse_slowly(excess_ms)
            return
        refusal = self._host.admit(self)
        if refusal is not None:
            self._traffic.refused += 1
            logger.warning(
                "connection_refused", _REFUSED, peer=str(self.caller.peer), reason=refusal
            )
            self._transport.abort()
            return
        if self.listener.requires_login:
            self._gate = self._host.gate_for(self)
            self._is_login = True
            self._buffer.smallest_room_bytes = LOGIN_ROOM_BYTES
        wait_ms = 0 if self.caller.is_node else rates.wait_ms(self.listener.name)
        if wait_ms is None:
            self._refuse(BUSY)
        elif wait_ms:
            self._mute(wait_ms)

    def _refuse_slowly(self, wait_ms: int) -> None:
        """Closes a connection that may not be, but not at once: its client would try again at once.

        With TLS it is closed at once, before its handshake costs anything.
        """
        self._traffic.refused += 1
        self._host.refusals.warn("connection_refused", _REFUSED, self.peer, reason=OVER_QUOTA)
        self._is_refused = True
        if not self.listener.settings.uses_tls and self._host.hold(self):
            self._mute(wait_ms)
        else:
            self.abort()

    def _locate(self, transport: asyncio.BaseTransport) -> None:
        self.caller.peer = _endpoint(transport.get_extra_info("peername"))
        self.caller.local = _endpoint(transport.get_extra_info("sockname"))

    def handshake_done(self, certificate: bytes | None) -> None:
        """The connection is encrypted; the certificate is the client's."""
        self.last_active = self._host.now()
        tls = self.listener.tls
        if tls is not None and not self.listener.requires_login:
            try:
                self.caller.principal = tls.principal_of(certificate)
            except UnmappedNameError as error:
                self._refuse(str(error))

    def handshake_failed(self, reason: str) -> None:
        self._traffic.faulted += 1
        self._host.refusals.warn(
            "handshake_failed",
            "connection from %(peer)s to listener %(listener)s failed: %(reason)s",
            self.peer,
            listener=self.listener.name,
            reason=reason,
        )

    def connection_lost(self, exc: Exception | None) -> None:
        if self._buffer.filled and not self._draining:
            logger.info(
                "connection_broken",
                "connection from %(peer)s ended in the middle of a request, after %(bytes)d bytes of it",
                peer=str(self.caller.peer),
                bytes=self._buffer.filled,
            )
        self._transport = None
        if self._end_of_mute is not None:
            self._end_of_mute.cancel()
        if self._login_step is not None:
            self._login_step.cancel()
        if self._waits_for_room:
            self._unsettled.forget(self)
        self._responses.cancel()
        self._responses.take_unsent()
        self._buffer.drop()
        self._host.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._buffer.filled:
            return self._buffer.free_space
        if self._is_login:
            return self._host.receive_buffer[:LOGIN_RECEIVE_BYTES]
        if self._host.unfinished.is_short:
            return self._host.receive_buffer[:SCARCE_RECEIVE_BYTES]
        return self._host.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active = self._host.note_receive()
        self._traffic.received_bytes += nbytes
        if self._buffer.filled:
            self._buffer.filled += nbytes
            self._handle_buffered()
            return
        received = self._host.receive_buffer[:nbytes]
        done = self._handle_frames(received)
        if done < nbytes:
            self._keep(received[done:])
        self._regulate_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        if isinstance(self._transport, PiecewiseTransport) and not self._transport.go_on():
            return
        self._write_paused = False
        self.last_active = self._host.now()
        self._release()
        self._continue()

    # Frames in.

    @property
    def _may_handle(self) -> bool:
        return not (
            self._busy
            or self._write_paused
            or self._draining
            or self._buffer.lacks_room
            or self._in_line
            or self._waits_for_room
            or self._muted_until_ms
            or self._transport is None
            or self._responses.is_full
        )

    @property
    def _frame_limits(self) -> tuple[int, int]:
        if self._is_login and self._gate is not None:
            return self._gate.frame_limits
        return SMALLEST_FRAME_BYTES, self._host.max_frame_bytes

    def _handle_frames(self, received: memoryview) -> int:
        """Handles complete frames as far as the limits allow; returns the number of bytes handled."""
        position, end = 0, len(received)
        # After a wait for its turn, the first frame of a connection is handled however busy the loop is.
        next_check = 1 if self._has_waited else 0
        self._has_waited = False
        self._batching = True
        while end - position >= SIZE_BYTES and self._may_handle:
            (size,) = read_size(received, position)
            if self._is_login:
                smallest, largest = self._frame_limits
                fits = smallest <= size <= largest
            else:
                fits = SMALLEST_FRAME_BYTES <= size <= self._host.max_frame_bytes
            if not fits:
                self._refuse_frame(bytes(received[position : position + SIZE_BYTES]), size)
                break
            start = position + SIZE_BYTES
            if end - start < size:
                break
            if position >= next_check:
                share = self._share
                must_wait = share.frames_had_their_time() if position else share.first_frame_waits()
                if must_wait:
                    self._in_line = True
                    share.call_next(self._take_turn)
                    break
                next_check = position + BYTES_PER_CHECK if position else 1
            if self._unsettled.holds_back and self._must_wait_for_room(received, start):
                break
            following = position
            if size <= PLAIN_BYTES and self._answers_plain and not received[start]:
                api = self._apis.get(received[start + 1])
                if api is not None and api.handle_plain is not None:
                    following = self._answer_plain(api, api.handle_plain, received, position)
            if following == position:
                self._handle_frame(received[start : start + size])
                following = start + size
            position = following
            if self._responses.unsent_bytes > MAX_UNSENT_BYTES:
                self._send()
        self._batching = False
        if self._responses.unsent_bytes:
            self._send()
        return position

    def _must_wait_for_room(self, received: memoryview, start: int) -> bool:
        """Whether the next frame is a Produce request, and too much of others is not durable yet."""
        if received[start] or received[start + 1] != PRODUCE_KEY or self._is_login:
            return False
        self._waits_for_room = self._unsettled.must_wait(self)
        return self._waits_for_room

    def go_on_producing(self) -> None:
        """Implements WaitingProducer."""
        self._waits_for_room = False
        self._has_waited = True
        self._continue()
        self._has_waited = False

    def _take_turn(self) -> None:
        """Goes on with frames that waited while other connections had their turn."""
        self._in_line = False
        self._has_waited = True
        self._continue()
        self._has_waited = False

    def _keep(self, rest: memoryview) -> None:
        """Keeps bytes that cannot be handled yet, unless the connection is closing."""
        if rest and not self._is_closing:
            self._buffer.replace(rest)
        else:
            self._buffer.clear()

    def _handle_buffered(self) -> None:
        buffer = self._buffer
        handled_bytes = self._handle_frames(buffer.unhandled)
        if handled_bytes:
            buffer.skip(handled_bytes)
        frames_wait = buffer.may_wait_in_place and not self._may_handle
        if not frames_wait and (handled_bytes or (buffer.is_full and not buffer.grow())):
            self._keep(buffer.unhandled)
        self._regulate_reading()

    @property
    def received_bytes(self) -> int:
        """The number of bytes that cannot be handled yet."""
        return self._buffer.filled

    @property
    def waits_for_broker(self) -> bool:
        return self._busy or self._in_line or self._waits_for_room or self._muted_until_ms > 0

    def go_on_receiving(self) -> None:
        """There is room for more of an unfinished frame."""
        if not self._buffer.use_claimed_room() and self._buffer.filled:
            self._keep(self._buffer.unhandled)
        self._continue()

    def give_up_receiving(self, reason: str) -> None:
        self._close(reason)

    def _regulate_reading(self) -> None:
        """Pauses reading while no request may be handled: more requests then wait with the client."""
        if self._transport is None:
            return
        if self._may_handle == self._reading_paused:
            if self._reading_paused:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
            self._reading_paused = not self._reading_paused

    def _continue(self) -> None:
        """Goes on when requests need no longer wait."""
        if self._buffer.filled and self._may_handle and not self._batching:
            self._handle_buffered()
        else:
            self._regulate_reading()

    def _refuse_frame(self, start: bytes, size: int) -> None:
        for prefix, name in _FOREIGN_PROTOCOLS:
            if start.startswith(prefix):
                self._refuse(f"it sent {name}, not Kafka's protocol")
                return
        smallest, largest = self._frame_limits
        self._close(f"a frame of {size} bytes is outside of {smallest}..{largest}")

    def _answer_plain(
        self, api: Api[Any, Any], handle: PlainHandler, received: memoryview, position: int
    ) -> int:
        """Answers the plain requests of an API from a position on; returns where the first one begins that is not."""
        if self._gate is not None or self._quotas.limits_clients:
            return position
        (size,) = read_size(received, position)
        most_bytes = max(PLAIN_BYTES_IF_SMALL, min(PLAIN_BYTES, PLAIN_REQUESTS_IF_LARGE * size))
        end = min(len(received), position + most_bytes + SIZE_BYTES)
        try:
            answers = handle(self._host.node, self.caller, received, position, end)
            if answers is None:
                return position
            self.caller.api_name = api.name
            position = answers.end
            if isinstance(answers, PlacedRequest):
                answers.receiver = self
                self._responses.add_place(answers)
                return position
            if answers.parts:
                self._responses.add_framed(answers.parts)
            for reply, version, correlation_id in answers.replies or ():
                if reply is not NO_REPLY:
                    self._reply(reply, version, correlation_id)
        except CloseConnectionError as error:
            self._close(str(error))
            return len(received)
        except Exception as error:
            self._log_bug(error)
            self._close("an internal error")
            return len(received)
        return position

    def _handle_frame(self, frame: memoryview) -> None:
        try:
            if self._gate is not None and not self._passes(self._gate, frame):
                return
            api_key, version, correlation_id = read_request_start(frame)
            api = self._apis.get(api_key)
            if api is None:
                raise CloseConnectionError(f"API {api_key} is not served")
            self.caller.api_name = api.name
            if not api.first_version <= version <= api.last_version:
                if api_key != API_VERSIONS_KEY:
                    raise CloseConnectionError(f"{api.name} v{version} is not served")
                # The client learns from a version 0 answer what it may ask (KIP-511).
                context = RequestContext(version, None, self.caller)
                self._reply(api.handle(self._host.node, None, context), 0, correlation_id)
                return
            header = read_request_header(frame, version >= api.flexible_since)
            context = self._context
            if context.version != version or context.client_id != header.client_id:
                context = self._context = RequestContext(version, header.client_id, self.caller)
            meter = None
            if self._quotas.limits_clients:
                context = self._with_meter(context, api_key, len(frame))
                meter = context.meter
            if len(frame) <= DIVIDED_FRAME_BYTES:
                request = decode_message(api.request, version, frame, header.body_position)
            else:
                position = header.body_position
                request = self._decode_unless_large(api, version, frame, position)
                if request is None:
                    self._answer_large(api, frame, position, context, correlation_id)
                    return
            reply = api.handle(self._host.node, request, context)
            if meter is not None:
                self._reply_metered(reply, meter, version, correlation_id)
            elif reply is not NO_REPLY:
                self._reply(reply, version, correlation_id)
        except (MalformedMessageError, CloseConnectionError) as error:
            self._close(str(error))
        except Exception as error:
            self._log_bug(error)
            self._close("an internal error")

    def _decode_unless_large(
        self, api: Api[Any, Any], version: int, frame: memoryview, position: int
    ) -> Any | None:
        """The decoded request; None if it has too many elements to be answered in one go."""
        if len(frame) <= SLICED_FRAME_BYTES:
            request = decode_message(api.request, version, frame, position)
        else:
            steps = decode_in_slices(api.request, version, frame, position, api.max_elements)
            try:
                next(steps)
            except StopIteration as done:
                request = done.value
            else:
                return None
        is_large = api.divisions is not None and api.divisions.of(request) is not None
        return None if is_large else request

    def _answer_large(
        self,
        api: Api[Any, Any],
        frame: memoryview,
        position: int,
        context: RequestContext,
        correlation_id: int,
    ) -> None:
        """Answers a request in slices; meanwhile its bytes have to stay."""
        if self._buffer.filled:
            self._buffer.keep_for_request()
        else:
            frame = memoryview(bytearray(frame))
        large = answer_large(
            self._share,
            self._host.unfinished,
            api,
            self._host.node,
            frame,
            position,
            context,
            correlation_id,
        )
        if context.meter is not None:
            context.meter.end_step()
            task = self._run(timed(large, context.meter), context.version, correlation_id)
            _close_when_done(task, large)
        else:
            self._run(large, context.version, correlation_id)

    # Quotas.

    def _with_meter(
        self, context: RequestContext, api_key: int, frame_bytes: int
    ) -> RequestContext:
        """The context of a request that is measured, as those of clients are."""
        if self.caller.is_node:
            return context
        meter = RequestMeter(
            self._host.node.quotas,
            self.caller,
            context.client_id,
            self._mute,
            received_bytes=frame_bytes,
            is_produce=api_key == PRODUCE_KEY,
            time_is_free=api_key in FREE_OF_CHARGE,
        )
        return context._replace(meter=meter)

    def _reply_metered(
        self, reply: Reply[Any], meter: RequestMeter, version: int, correlation_id: int
    ) -> None:
        if inspect.iscoroutine(reply):
            meter.end_step()
            charged = charged_in_the_end(reply, meter)
            framed = frame_in_slices(self._share, charged, version, correlation_id)
            task = self._run(timed(framed, meter), version, correlation_id)
            _close_when_done(task, framed, charged, reply)
            return
        reply = metered(reply, meter)
        if reply is not NO_REPLY:
            self._reply(reply, version, correlation_id)
        meter.charge_rest()
        meter.end_step()

    def _mute(self, throttle_ms: int) -> None:
        """Handles no further request for some time; what is received meanwhile waits."""
        until_ms = self._now_ms() + throttle_ms
        if self._transport is None or until_ms <= self._muted_until_ms:
            return
        self._muted_until_ms = until_ms
        self._look_at_mute_in(throttle_ms)
        if not self._batching:
            self._regulate_reading()

    def _now_ms(self) -> int:
        return self._host.node.quotas.now_ms()

    def _look_at_mute_in(self, wait_ms: int) -> None:
        if self._end_of_mute is not None:
            self._end_of_mute.cancel()
        loop = asyncio.get_running_loop()
        self._end_of_mute = loop.call_later(wait_ms / 1000, self.end_mute_in_time)

    def end_mute_in_time(self) -> None:
        """Goes on with requests if the time is over by the broker's clock, which tests move."""
        if not self._muted_until_ms or self._transport is None:
            return
        left_ms = self._muted_until_ms - self._now_ms()
        if left_ms > 0:
            self._look_at_mute_in(left_ms)
            return
        self._muted_until_ms = 0
        if self._is_refused:
            self.abort()
        else:
            self._continue()

    # Logins.

    def _passes(self, gate: SaslGate, frame: memoryview) -> bool:
        """Whether a frame passes the gate; one that does not is a step of a login."""
        step = gate.take(frame)
        if step is None:
            return True
        self._is_login = True
        if isinstance(step, Answer | LoginFailed):
            self._follow_login(gate, step)
        else:
            self._follow_later(gate, step)
        return False

    def _follow_login(self, gate: SaslGate, step: Step) -> None:
        if isinstance(step, LoginFailed):
            # Until its end the connection handles nothing, and takes no place from other logins.
            self._busy = True
            self._host.login_over(self)
            self._login_step = asyncio.get_running_loop().call_later(
                step.delay_seconds, self._end_failed_login, step.parts
            )
            return
        self._responses.add_framed(step.parts)
        if gate.is_open:
            self._is_login = False
            self._buffer.smallest_room_bytes = SMALLEST_ROOM_BYTES
            self._host.login_over(self)
            if not gate.session_ends:
                self._gate = None

    def _follow_later(self, gate: SaslGate, step: LaterStep) -> None:
        """Follows a step that a thread works on; the connection handles nothing meanwhile."""
        self._busy = True

        def finish(done: asyncio.Future[Step]) -> None:
            self._login_step = None
            error = None if done.cancelled() else done.exception()
            if done.cancelled() or self._is_closing:
                return
            if error is not None:
                self._log_bug(error)
                self._close("an internal error")
                return
            self._busy = False
            self.last_active = self._host.now()
            self._follow_login(gate, done.result())
            self._send()
            self._continue()

        self._login_step = task = asyncio.ensure_future(step)
        task.add_done_callback(finish)
        # A task that is cancelled before it begins does not await the coroutine.
        task.add_done_callback(lambda _: step.close())

    def _end_failed_login(self, parts: list[Buffer] | None) -> None:
        if self._is_closing:
            return
        self._traffic.faulted += 1
        self._draining = True
        if parts is None:
            self.close()
            return
        self._responses.add_framed(parts)
        self._send()
        # Some clients look at the end of a connection first, and never at the answer before it.
        self._login_step = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.close)

    def give_up_login(self, reason: str) -> None:
        """The client has not authenticated itself in time."""
        self._refuse(reason)

    # Responses out.

    def _reply(self, reply: Reply[Any], version: int, correlation_id: int) -> None:
        if isinstance(reply, asyncio.Future):
            pending = self._responses.reserve(version, correlation_id, reply)
            if isinstance(reply, DeliveredResponse) and not reply.done():
                reply.receiver, reply.place = self, pending
            else:
                reply.add_done_callback(lambda done: self._complete(pending, done))
        elif inspect.iscoroutine(reply):
            framed = frame_in_slices(self._share, reply, version, correlation_id)
            # A task that is cancelled before it begins does not await the coroutine.
            self._run(framed, version, correlation_id).add_done_callback(lambda _: reply.close())
        else:
            self._responses.add(reply, version, correlation_id)

    def _run(
        self,
        coroutine: Coroutine[Any, Any, Framed | NoReply],
        version: int,
        correlation_id: int,
    ) -> asyncio.Future[Framed | NoReply]:
        self._busy = True
        task = asyncio.ensure_future(coroutine)
        pending = self._responses.reserve(version, correlation_id, task)

        def finish(done: asyncio.Future[Any]) -> None:
            self._busy = False
            self._complete(pending, done)
            self._continue()

        task.add_done_callback(finish)
        return task

    def _complete(self, pending: PendingResponse, done: asyncio.Future[Any]) -> None:
        """Puts a late response into its place and sends the responses that are next in order."""
        if self._is_closing or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._fail(error)
            return
        self._responses.complete(pending, done.result())
        if self._send_completed():
            self._continue()

    def _make_again(self, pending: PendingResponse, until: asyncio.Future[None]) -> None:
        """Makes a response that had to wait when it could be sent."""
        if self._is_closing or until.cancelled():
            return
        pending.future = None
        if self._send_completed():
            self._continue()

    def take_response(self, place: PendingResponse, response: Any) -> None:
        """Implements ResponseReceiver."""
        self._responses.complete(place, response)

    def take_failure(self, error: Exception) -> None:
        """Implements ResponseReceiver."""
        if not self._is_closing:
            self._release()  # those before it were made
            self._fail(error)

    def send_responses(self) -> None:
        """Implements ResponseReceiver."""
        if self._is_closing or self._send_only_response():
            return
        if self._send_completed():
            asyncio.get_running_loop().call_soon(self._continue)

    def _send_only_response(self) -> bool:
        """Sends the response of a plain request, if nothing else is at hand: what most clients wait for is that."""
        if (
            self._buffer.filled
            or self._reading_paused
            or self._write_paused
            or self._batching
            or self._transport is None
        ):
            return False
        try:
            data = self._responses.take_only_frame()
        except Exception as error:
            self._log_bug(error)
            self._close("an internal error")
            return True
        if data is None:
            return False
        self.last_active = self._host.now()
        self._traffic.sent_bytes += len(data)
        self._transport.write(data)
        return True

    def _fail(self, error: BaseException) -> None:
        """A response could not be made."""
        if not isinstance(error, CloseConnectionError | MalformedMessageError):
            self._log_bug(error)
        self._close(str(error) or "an internal error")

    def _send_completed(self) -> bool:
        """Sends late responses that are next in order; whether requests were held back, and may go on now."""
        self.last_active = self._host.now()
        requests_wait = bool(self._buffer.filled) or self._reading_paused
        was_held_back = requests_wait and not self._may_handle
        self._release()
        return was_held_back

    def _release(self) -> None:
        """Queues the responses that are next in order and ready, while the client reads."""
        responses = self._responses
        try:
            while not self._write_paused and responses.release_next():
                if responses.unsent_bytes > MAX_UNSENT_BYTES:
                    self._send()
        except NotMadeError as late:
            pending = responses.put_off(late.until)
            late.until.add_done_callback(lambda done: self._make_again(pending, done))
        except Exception as error:
            self._log_bug(error)
            self._close("an internal error")
        # If the next response has come, too, its callback sends both at once.
        if not self._batching and (self._is_closing or not responses.next_is_done):
            self._send()

    def _send(self) -> None:
        if self._responses.unsent_bytes and self._transport is not None:
            self._traffic.sent_bytes += self._responses.unsent_bytes
            unsent = self._responses.take_unsent()
            if len(unsent) == 1:
                self._transport.write(unsent[0])
            elif not self._transport.is_closing():
                # asyncio's `write` checks this itself, `writelines` does not.
                self._transport.writelines(unsent)

    # The end.

    @property
    def silent_socket(self) -> int | None:
        """The descriptor of a socket that is not read, so that only polling shows its end; None for others.

        While requests wait for their turn it is None: they are handled even if the client has gone.
        """
        if not self._reading_paused or self._buffer.filled or self._is_closing:
            return None
        assert self._transport is not None
        connected = self._transport.get_extra_info("socket")
        return None if connected is None else int(connected.fileno())

    @property
    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_idle(self) -> bool:
        """Whether every request has its response, and the response was sent."""
        return self._responses.is_empty

    def drain(self) -> None:
        """Accepts no more requests; accepted ones are finished."""
        self._draining = True
        self._regulate_reading()

    def close(self) -> None:
        """Closes after the queued responses have been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def expire(self) -> None:
        """Closes an idle connection; aborts one whose client does not read its last responses."""
        if self._is_closing:
            self.abort()
        else:
            self.close()

    def _log_bug(self, error: BaseException) -> None:
        logger.bug(
            "request_failed",
            "a request from %(peer)s failed: this is a bug",
            error,
            peer=str(self.caller.peer),
        )

    def _refuse(self, reason: str) -> None:
        """Closes the connection of a client that came to the wrong door, and may try again and again."""
        self._host.refusals.warn("connection_closed", _CLOSED, self.peer, reason=reason)
        self._end()

    def _close(self, reason: str) -> None:
        logger.warning("connection_closed", _CLOSED, peer=str(self.caller.peer), reason=reason)
        self._end()

    def _end(self) -> None:
        self._traffic.faulted += 1
        self._draining = True
        self._responses.cancel()
        self._send()
        self.close()
        if not self._batching:
            self._buffer.clear()  # a client that does not read costs no more memory than its responses
            self._regulate_reading()


def _close_when_done(task: asyncio.Future[Any], *coroutines: Coroutine[Any, Any, Any]) -> None:
    """A task that is cancelled before it begins does not await the coroutines within its own."""

    def close(_: asyncio.Future[Any]) -> None:
        for coroutine in coroutines:
            coroutine.close()

    task.add_done_callback(close)


def _endpoint(address: Any) -> Endpoint:
    """The address of a socket; an IPv4 client of an IPv6 socket has its IPv4 address."""
    if not isinstance(address, tuple):
        return Endpoint(str(address or "unknown"), 0)
    host = str(address[0]).removeprefix("::ffff:")
    return Endpoint(host, int(address[1]))
