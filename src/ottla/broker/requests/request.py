"""What a handler is given besides the request itself, and what it may answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.node import Node
from ottla.model import Endpoint

if TYPE_CHECKING:
    from ottla.broker.requests.request_pieces import Divisions

# A response now; one later, whose effect has been made already, so that the next request need not wait for it;
# or a coroutine, during which the connection takes no further request. None: there is no response.
# A future may give a function instead of the response: it is called when the response can be sent, so that a large one
# takes no memory while it waits for its turn or for a slow reader. A coroutine may give another one that needs nothing
# of the request any more, so that a large one takes no memory while its response waits for others.
Answer = Any | asyncio.Future[Any] | Coroutine[Any, Any, Any] | None


class RequestContext(NamedTuple):
    """Where a request came from; `local` is the address that the client connected to."""

    version: int
    client_id: str | None
    peer: Endpoint
    local: Endpoint


class CloseConnectionError(Exception):
    """The connection has to go: that is the only answer that the protocol has for this."""


# Where a handler takes them all at once, and where it goes on in slices.
MAX_ELEMENTS: Final = 1 << 13
MAX_ELEMENTS_IN_SLICES: Final = 1 << 18

Handler = Callable[[Node, Any, RequestContext], Answer]


class Api(NamedTuple):
    """An API that is served: its messages, the versions that are advertised, and its handler."""

    name: str
    key: int
    request: type
    first_advertised: int
    first_version: int
    last_version: int
    flexible_since: int
    handle: Handler
    # How many elements the lists of a request may have together; one with more costs its connection.
    max_elements: int = MAX_ELEMENTS
    # How a request with many elements is taken apart, if it can be.
    divisions: Divisions | None = None
    # As `handle`, for a request that has been decoded and is large: always a coroutine.
    handle_large: Handler | None = None
