"""An API that is served: its messages, its versions, its handler, and how large its requests may be."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple

from ottla.broker.requests.divisions import Divisions
from ottla.broker.requests.plain_answers import PlainHandler
from ottla.broker.requests.request import Handler, Req, Resp
from ottla.broker.requests.request_pieces import large_handler
from ottla.wire.declare import info_of

# The limit on the elements of all lists of a request together: for a handler that answers it in one go, and for one
# that answers it in slices.
DEFAULT_MAX_ELEMENTS: Final = 1 << 13
MAX_ELEMENTS_IN_SLICES: Final = 1 << 18


class Api(NamedTuple, Generic[Req, Resp]):
    """An API and its handler; `serve` makes it."""

    name: str
    key: int
    request: type[Req]
    response: type[Resp]
    first_advertised: int
    first_version: int
    last_version: int
    flexible_since: int
    handle: Handler[Req, Resp]
    # A request with more elements closes its connection.
    max_elements: int = DEFAULT_MAX_ELEMENTS
    # How a request with many elements is divided, if it can be.
    divisions: Divisions | None = None
    # As `handle`, for a request that is divided: the reply is always exclusive.
    handle_large: Handler[Req, Resp] | None = None
    # Whether only nodes with a metrics page tell clients of it.
    needs_metrics_page: bool = False
    # Answers many plain requests at once, where nothing stands between connections and handlers.
    handle_plain: PlainHandler | None = None


def serve(
    request: type[Req],
    response: type[Resp],
    handle: Handler[Req, Resp],
    *,
    divisions: Divisions | None = None,
    max_elements: int | None = None,
    first_advertised: int | None = None,
    needs_metrics_page: bool = False,
    handle_plain: PlainHandler | None = None,
) -> Api[Req, Resp]:
    """The API of two messages, with the handler that replies to the first with the second."""
    info = info_of(request)
    assert info_of(response).api_key == info.api_key
    if max_elements is None:
        max_elements = DEFAULT_MAX_ELEMENTS if divisions is None else MAX_ELEMENTS_IN_SLICES
    first_version, last_version = info.versions
    return Api(
        name=info.name.removesuffix("Request"),
        key=info.api_key,
        request=request,
        response=response,
        first_advertised=first_version if first_advertised is None else first_advertised,
        first_version=first_version,
        last_version=last_version,
        flexible_since=info.flexible_since,
        handle=handle,
        max_elements=max_elements,
        divisions=divisions,
        handle_large=None if divisions is None else large_handler(handle, divisions),
        needs_metrics_page=needs_metrics_page,
        handle_plain=handle_plain,
    )
