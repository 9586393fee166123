"""Later responses that are handed to their connections, without a callback of a future.

A callback has a turn of the loop to itself, which costs as much as a small request. What answers many requests at once,
as a coordinator does, hands over all responses, and then has each connection send.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, TypeVar

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
