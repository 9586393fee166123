"""The answers to plain requests: to several at once, or to one that a coordinator answers later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.broker.node import Node
from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.request import Reply
from ottla.broker.security.caller import Caller
from ottla.ports import Buffer


class PlainReply(NamedTuple):
    """The reply to one of the requests."""

    reply: Reply[Any]
    version: int
    correlation_id: int


class PlainAnswers(NamedTuple):
    """The requests up to the byte `end` are answered: by `parts`, the bytes of all responses, or by one reply each.

    Or it was one request, and its response comes in its `place`.
    """

    end: int
    request_count: int
    parts: list[Buffer]
    replies: Iterable[PlainReply] | None = None
    place: PlacedRequest | None = None


def placed(end: int, place: PlacedRequest) -> PlainAnswers:
    """The answer to one request, which ends at the byte `end`."""
    return PlainAnswers(end, 1, NO_PARTS, None, place)


NO_PARTS: Final[list[Buffer]] = []

# Answers requests in received bytes between two positions; None if the first one is not for it.
PlainHandler: TypeAlias = Callable[[Node, Caller, memoryview, int, int], PlainAnswers | None]
