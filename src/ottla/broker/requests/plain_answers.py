"""The answers to plain requests: to several at once, or to one that a coordinator answers later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

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
    """The requests up to the byte `end` are answered: by `parts`, the bytes of all responses, or by one reply each."""

    end: int
    request_count: int
    parts: list[Buffer]
    replies: Iterable[PlainReply] | None = None


# Answers requests in received bytes between two positions, or has a coordinator answer the first one; None if that is
# not for it.
PlainHandler: TypeAlias = Callable[
    [Node, Caller, memoryview, int, int], PlainAnswers | PlacedRequest | None
]
