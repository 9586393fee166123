"""Later responses that are handed to their connections, without a callback of a future.

A callback has a turn of the loop to itself, which costs as much as a small request. What answers many requests at once,
as a coordinator does, hands over all responses, and then has each connection send. A plain request needs no future at
all: it is its own place in the order of its connection's responses.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, TypeVar

from ottla.ports import Buffer

R = TypeVar("R")


class ResponseReceiver(Protocol):
    """A connection that has kept places for responses.

    No call handles further requests: the caller may be in the middle of its own work.
    """

    def take_response(self, place: Any, response: Any) -> None:
        """The response is there that the place was kept for."""
        ...

    def take_failure(self, error: Exception) -> None:
        """There will be no response; the connection ends."""
        ...

    def send_responses(self) -> None:
        """Sends what was taken, as far as nothing before it is missing."""
        ...


class DeliveredResponse(asyncio.Future[R]):
    """The future of a response; where only a connection waits for it, that is its receiver."""

    __slots__ = ("place", "receiver")

    receiver: ResponseReceiver | None
    # The place that the receiver has kept for the response.
    place: Any

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.receiver = None


class PlaceObserver(Protocol):
    """Learns what becomes of a request that is its own place."""

    def answered(self, place: PlacedRequest) -> None: ...

    def given_up(self) -> None: ...


class PlacedRequest(ABC):
    """A request without a response yet, and the place of that in the order of responses; a machine's ticket, too.

    The response is written when it can be sent: until then, there is only the result.
    """

    __slots__ = ("correlation_id", "end", "is_missing", "observer", "receiver", "result", "version")

    # What other places may have.
    future: ClassVar[None] = None
    parts: ClassVar[None] = None

    def __init__(self, end: int, version: int, correlation_id: int) -> None:
        """The request ends at the byte `end` of what was received."""
        self.end = end
        self.version = version
        self.correlation_id = correlation_id
        self.is_missing = True
        self.result: Any = None
        self.receiver: ResponseReceiver | None = None
        self.observer: PlaceObserver | None = None

    def answer(self, result: Any) -> ResponseReceiver | None:
        """Takes the result; returns who has to send the response, if it has kept a place for it."""
        # The connection may have gone in the meantime.
        if not self.is_missing:
            return None
        self.result = result
        self.is_missing = False
        if self.observer is not None:
            self.observer.answered(self)
        return self.receiver

    def give_up(self) -> None:
        """The connection has gone."""
        if self.is_missing:
            self.is_missing = False
            if self.observer is not None:
                self.observer.given_up()

    @abstractmethod
    def frame(self) -> bytearray:
        """The response's bytes."""

    def framed(self) -> list[Buffer]:
        """The response's bytes, as other places have them."""
        return [self.frame()]

    @abstractmethod
    def error_codes(self) -> Iterable[int]:
        """The error codes of the response, NONE among them."""
