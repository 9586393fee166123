"""The responses of a connection: they leave in the order of the requests, whichever is ready first."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.large_request import Framed
from ottla.broker.requests.request import NO_REPLY, MadeWhenSent
from ottla.ports import Buffer
from ottla.wire.framing import frame_response

MAX_UNANSWERED: Final = 1024
MAX_UNSENT_BYTES: Final = 1 << 20
# Small responses are collected in a buffer of about this size.
SHARED_BUFFER_BYTES: Final = 16 << 10


class PendingResponse:
    """The place of a response in the order of responses."""

    __slots__ = ("correlation_id", "future", "parts", "response", "version")

    def __init__(
        self, version: int, correlation_id: int, future: asyncio.Future[Any] | None
    ) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.future = future  # until it is done
        self.response: Any = None
        self.parts: list[Buffer] | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the response is not there."""
        return self.future is not None

    def give_up(self) -> None:
        """The connection has gone."""
        if self.future is not None:
            self.future.cancel()
            self.future = None

    def framed(self) -> list[Buffer]:
        """The response's bytes."""
        if self.parts is not None:
            return self.parts
        response = self.response
        if isinstance(response, MadeWhenSent):
            response = response.make()
        if isinstance(response, Framed):
            return response.parts
        if response is NO_REPLY:
            return []
        return frame_response(response, self.version, self.correlation_id)


class ResponseQueue:
    """Responses that are not ready, or wait for earlier ones; and the bytes that are sent next."""

    __slots__ = ("_pending", "_unsent", "_waiting_bytes", "unsent_bytes")

    def __init__(self) -> None:
        self._pending: deque[PendingResponse | PlacedRequest] = deque()
        self._waiting_bytes = 0  # of responses that are ready, but not next
        self._unsent: list[Buffer] = []
        self.unsent_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._pending and not self._unsent

    @property
    def is_full(self) -> bool:
        """Whether no further request should be handled, because too many responses or bytes wait."""
        return len(self._pending) >= MAX_UNANSWERED or self._waiting_bytes > MAX_UNSENT_BYTES

    @property
    def next_is_done(self) -> bool:
        """Whether the next response is done, and the callback that releases it is due."""
        following = self._pending[0].future if self._pending else None
        return following is not None and following.done()

    def reserve(
        self, version: int, correlation_id: int, future: asyncio.Future[Any]
    ) -> PendingResponse:
        """The place of a response that comes later."""
        pending = PendingResponse(version, correlation_id, future)
        self._pending.append(pending)
        return pending

    def complete(self, pending: PendingResponse, response: Any) -> None:
        """A response that comes later has come."""
        pending.future, pending.response = None, response

    def add(self, response: Any, version: int, correlation_id: int) -> None:
        """Adds a response that is ready."""
        self.add_framed(frame_response(response, version, correlation_id))

    def add_framed(self, parts: list[Buffer]) -> None:
        """Adds the bytes of a response that is ready."""
        if self._pending:
            pending = PendingResponse(0, 0, None)
            pending.parts = parts
            self._waiting_bytes += sum(map(len, parts))
            self._pending.append(pending)
        else:
            self._queue(parts)

    def add_place(self, place: PlacedRequest) -> None:
        """Keeps the place of a plain request; its response may be there already."""
        if place.is_missing or self._pending:
            self._pending.append(place)
        else:
            self._queue(place.framed())

    def release_next(self) -> bool:
        """Queues the next response to be sent; False if it is not ready. May raise NotMadeError."""
        if not self._pending or self._pending[0].is_missing:
            return False
        pending = self._pending[0]
        parts = pending.framed()
        self._pending.popleft()
        if pending.parts is not None:
            self._waiting_bytes -= sum(map(len, parts))
        self._queue(parts)
        return True

    def take_only_frame(self) -> bytearray | None:
        """The response of a plain request, if it is ready, and there is nothing else to send and no other place."""
        pending = self._pending
        if len(pending) != 1 or self._unsent:
            return None
        place = pending[0]
        if place.is_missing or not isinstance(place, PlacedRequest):
            return None
        pending.clear()
        return place.frame()

    def put_off(self, until: asyncio.Future[None]) -> PendingResponse:
        """Has the next response wait; what it is made from stays."""
        pending = self._pending[0]
        # What a plain request is answered is made at once.
        assert isinstance(pending, PendingResponse)
        pending.future = until
        return pending

    def _queue(self, parts: list[Buffer]) -> None:
        """Adds a response to the bytes that are sent next; small ones share a buffer."""
        unsent = self._unsent
        if len(parts) == 1 and unsent:
            last, part = unsent[-1], parts[0]
            if isinstance(last, bytearray) and len(last) < SHARED_BUFFER_BYTES:
                last += part
                self.unsent_bytes += len(part)
                return
        unsent += parts
        for part in parts:
            self.unsent_bytes += len(part)

    def take_unsent(self) -> list[Buffer]:
        """Takes the bytes that are to be sent now."""
        unsent = self._unsent
        self._unsent, self.unsent_bytes = [], 0
        return unsent

    def cancel(self) -> None:
        """Cancels the responses that have not been released."""
        pending, self._pending, self._waiting_bytes = self._pending, deque(), 0
        for one in pending:
            one.give_up()
