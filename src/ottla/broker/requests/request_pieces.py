"""Large requests, divided into pieces with a few elements each, and their responses joined into one.

A handler answers a whole request at once, which is right for the few elements that clients ask about. A request with a
hundred thousand elements goes through the same handler piece by piece (`divisions.py`), and the loop serves other
clients in between.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Generator, Hashable, Iterator
from operator import attrgetter
from typing import Any

from ottla.broker.node import Node
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import (
    NO_REPLY,
    CloseConnectionError,
    Detached,
    Exclusive,
    Handler,
    MadeWhenSent,
    NoReply,
    Reply,
    Req,
    RequestContext,
    Resp,
    made,
)
from ottla.errors import ErrorCode


def arrange(owner: Any, division: Division) -> Generator[None, None, Any]:
    """The request with repeated elements side by side, each no more often than its handler needs to see."""
    elements = getattr(owner, division.field)
    if not elements:
        return owner
    arranged: list[Any] = []
    if division.repeated is None:
        arranged = elements
    else:
        by_key: dict[Hashable, list[Any]] = {}
        for number, element in enumerate(elements):
            known = by_key.setdefault(division.repeated.key(element), [])
            if division.inner is not None or len(known) < division.repeated.most:
                known.append(element)
            if not number % 64:
                yield
        for same in by_key.values():
            arranged += same if division.inner is None else [_one_of(same, division.inner)]
            yield
    if division.inner is not None:
        within = []
        for element in arranged:
            within.append((yield from arrange(element, division.inner)))
            yield
        arranged = within
    return _with(owner, division.field, arranged)


def _one_of(same: list[Any], inner: Division) -> Any:
    """Joins elements of the same name, with their inner lists."""
    if len(same) == 1:
        return same[0]
    joined: list[Any] | None = []
    for element in same:
        found = getattr(element, inner.field)
        if found is None:  # everything of it, so that the others add nothing
            joined = None
            break
        joined += found
    return _with(same[0], inner.field, joined)


def cut(owner: Any, division: Division) -> Iterator[Any]:
    """Requests with few elements each, in order."""
    for piece, _ in _cut(owner, division, division.piece_elements):
        yield piece


def _cut(owner: Any, division: Division, size: int) -> Iterator[tuple[Any, int]]:
    elements = getattr(owner, division.field)
    piece: list[Any] = []
    weight = 0
    is_cut = False
    last: Hashable = None
    for element in elements or ():
        key = division.repeated.key(element) if division.repeated is not None else None
        parts = [(element, 1)] if division.inner is None else _cut(element, division.inner, size)
        for part, part_weight in parts:
            belongs = division.inner is None and key is not None and key == last
            if piece and weight + part_weight > size and not belongs:
                yield _with(owner, division.field, piece), weight
                piece, weight, is_cut = [], 0, True
            piece.append(part)
            weight += part_weight
            last = key
    if piece or not is_cut:
        yield (_with(owner, division.field, piece) if elements else owner), max(weight, 1)


def _with(owner: Any, field: str, elements: list[Any] | None) -> Any:
    changed = copy.copy(owner)
    setattr(changed, field, elements)
    return changed


def join(response: Any, more: Any, division: Division) -> Any:
    """Joins two responses; if only one has an error for all of its request, that is the whole response.

    Where both have the same one, the elements are joined: some answers name what was asked for.
    """
    error, other = _error_of(response), _error_of(more)
    if error != other:
        return response if error != ErrorCode.NONE else more
    for field in division.also_joined:
        getattr(response, field).extend(getattr(more, field))
    _join_elements(response, more, division)
    return response


def _join_elements(whole: Any, more: Any, division: Division) -> None:
    known, added = getattr(whole, division.answered_in), getattr(more, division.answered_in)
    if known is None or added is None:  # an error without elements
        return
    if known and added and division.named:
        name = attrgetter(*division.named)
        if name(known[-1]) == name(added[0]):
            if division.inner is not None and _error_of(added[0]) == ErrorCode.NONE:
                _join_elements(known[-1], added[0], division.inner)
            else:
                known[-1] = added[0]
            added = added[1:]
    known.extend(added)


def _error_of(answer: Any) -> int:
    return int(getattr(answer, "error_code", ErrorCode.NONE))


def large_handler(handle: Handler[Req, Resp], divisions: Divisions) -> Handler[Req, Resp]:
    """A handler of large requests, which calls another one for their pieces."""

    def handle_large(node: Node, request: Req, context: RequestContext) -> Reply[Resp]:
        division = divisions.of(request)
        if division is None:
            return handle(node, request, context)
        return answer_in_pieces(handle, node, request, context, division)

    return handle_large


async def answer_in_pieces(
    handle: Handler[Req, Resp],
    node: Node,
    request: Req,
    context: RequestContext,
    division: Division,
) -> Resp | NoReply:
    """The response to a large request, whose pieces are answered one after the other."""
    share = node.cluster.share
    request = await share.run(arrange(request, division))
    pieces = cut(request, division)
    replies: list[Any] = []
    while True:
        exclusive = await share.run(_until_exclusive(handle, node, pieces, context, replies))
        if exclusive is None:
            break
        try:
            replies.append(await exclusive)
        except CloseConnectionError as refusal:
            replies.append(refusal)
        await share.pause()  # it may not have waited for anything
    for reply in replies:
        # Only now: an error in one piece must not prevent the effect of the others.
        if isinstance(reply, CloseConnectionError):
            raise reply
    whole: Resp | NoReply = NO_REPLY
    for reply in replies:
        response = await response_of(reply)
        if response is not NO_REPLY:
            whole = response if whole is NO_REPLY else join(whole, response, division)
    return whole


def _until_exclusive(
    handle: Handler[Req, Resp],
    node: Node,
    pieces: Iterator[Req],
    context: RequestContext,
    replies: list[Any],
) -> Generator[None, None, Exclusive[Resp] | None]:
    """Has pieces answered up to one that must end before the next begins; None if all are answered."""
    for piece in pieces:
        try:
            reply: Any = handle(node, piece, context)
        except CloseConnectionError as refusal:
            reply = refusal
        if inspect.iscoroutine(reply):
            return reply
        replies.append(reply)
        yield
    return None


async def response_of(reply: Reply[Resp]) -> Resp | NoReply:
    """The response of a reply, when there is one."""
    found: Any = reply
    if inspect.iscoroutine(found):
        found = await found
    if isinstance(found, Detached):
        found = await found.coroutine
    elif isinstance(found, asyncio.Future):
        found = await found
    if isinstance(found, MadeWhenSent):
        found = await made(found)
    response: Resp | NoReply = found
    return response
