"""The context of a request, and the replies that a handler may give.

A reply is one of:

- the response itself;
- `Later`, a future of it. The request has taken effect already, so the connection goes on with the next one;
- `Exclusive`, a coroutine of it. The connection takes no further request until it ends;
- `NO_REPLY`: the client asked for no response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.broker.node import Node
from ottla.broker.security.caller import Caller
from ottla.broker.security.quotas import RequestMeter

Req = TypeVar("Req")
Resp = TypeVar("Resp")


class RequestContext(NamedTuple):
    """The version of a request, and who sent it; it has a meter while clients have quotas."""

    version: int
    client_id: str | None
    caller: Caller
    meter: RequestMeter | None = None


class CloseConnectionError(Exception):
    """The protocol has no other answer to the request than to close the connection."""


class NoReply(Enum):
    """The client asked for no response."""

    NO_REPLY = "no reply"


NO_REPLY: Final = NoReply.NO_REPLY


class NotMadeError(Exception):
    """A response that can be sent now cannot be made before `until` is done."""

    def __init__(self, until: asyncio.Future[None]) -> None:
        super().__init__("the response has to wait")
        self.until = until


class MadeWhenSent(Generic[Resp]):
    """A response that is made when it can be sent; `make` may raise NotMadeError, and is called again then.

    A large one takes no memory while it waits for earlier responses or for a slow reader.
    """

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Resp]) -> None:
        self.make = make


async def made(late: MadeWhenSent[Resp]) -> Resp:
    """The response, as soon as it can be made."""
    while True:
        try:
            return late.make()
        except NotMadeError as error:
            until = error.until
        await asyncio.wait([until])


class Detached(Generic[Resp]):
    """A response whose coroutine needs nothing of the request any more.

    A large request takes no memory while its response waits for records or other clients.
    """

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Resp]) -> None:
        self.coroutine = coroutine


Later: TypeAlias = asyncio.Future[Resp] | asyncio.Future[MadeWhenSent[Resp]]
Exclusive: TypeAlias = Coroutine[Any, Any, Resp | Detached[Resp] | NoReply]
Reply: TypeAlias = Resp | Later[Resp] | Exclusive[Resp] | NoReply

Handler: TypeAlias = Callable[[Node, Req, RequestContext], Reply[Resp]]
