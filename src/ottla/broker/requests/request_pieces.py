"""A request about many things, taken apart into requests about a few each; and their responses put together.

A handler answers a whole request at once, which is right for the few elements that clients ask about. A `Division`
says of an API which of its lists may be divided, so that a request with a hundred thousand elements goes through the
same handler piece by piece, and the loop serves others in between.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Coroutine, Generator, Hashable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from ottla.broker.node import Node
from ottla.broker.requests.request import Answer, CloseConnectionError, Handler, RequestContext
from ottla.errors import ErrorCode


class Repeated(NamedTuple):
    """What becomes of elements with the same values of some fields (none: of equal elements)."""

    fields: tuple[str, ...] = ()
    most: int = 1  # so many of them are kept

    def key(self, element: Any) -> Hashable:
        if not self.fields:
            key: Hashable = element
            return key
        found: Hashable = attrgetter(*self.fields)(element)
        return found


class Division(NamedTuple):
    """A list of a request that may be divided, and the list of the response that answers it.

    `inner` divides a list in each element. `named` are the fields by which an element of the response is known: the
    answer to an element that was divided comes in several, which are put together again. `repeated` says what names the
    same thing: in a list with an `inner` one, such elements become one; else at most so many of them are kept, side by
    side and in the same piece, because some handlers refuse what is asked twice.
    """

    field: str
    answered_in: str
    piece_elements: int = 128
    inner: Division | None = None
    named: tuple[str, ...] = ()
    repeated: Repeated | None = None
    also_joined: tuple[str, ...] = ()  # lists of the response that belong to no element

    def is_large(self, request: Any) -> bool:
        """Whether a request has more elements than are answered in one go."""
        return self._exceeds(request, 2 * self.piece_elements)

    def _exceeds(self, owner: Any, most: int) -> bool:
        elements = getattr(owner, self.field)
        if elements is None:
            return False
        count = len(elements)
        if self.inner is None or count > most:
            return count > most
        inner = self.inner.field
        for element in elements:
            count += len(getattr(element, inner) or ())
        return count > most


class Divisions(NamedTuple):
    """The lists of a request of which, by its version, one is in use."""

    choices: tuple[Division, ...]

    def of(self, request: Any) -> Division | None:
        """The division for a request that is large; None for others."""
        for division in self.choices:
            if division.is_large(request):
                return division
        return None


def arrange(owner: Any, division: Division) -> Generator[None, None, Any]:
    """The request, in which what is repeated is side by side, and no more often than it matters."""
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
    """One element with all that several of the same name have in their inner lists."""
    if len(same) == 1:
        return same[0]
    together: list[Any] | None = []
    for element in same:
        found = getattr(element, inner.field)
        if found is None:  # everything of it, so that the others add nothing
            together = None
            break
        together += found
    return _with(same[0], inner.field, together)


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
    """Two responses as one; an error of a whole response is the answer to all of the request."""
    if _error_of(response) != ErrorCode.NONE:
        return response
    if _error_of(more) != ErrorCode.NONE:
        return more
    for field in division.also_joined:
        getattr(response, field).extend(getattr(more, field))
    _join_elements(response, more, division)
    return response


def _join_elements(whole: Any, more: Any, division: Division) -> None:
    known, added = getattr(whole, division.answered_in), getattr(more, division.answered_in)
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


def large_handler(handle: Handler, divisions: Divisions) -> Handler:
    """A handler of large requests, which has another one answer their pieces."""

    def handle_large(node: Node, request: Any, context: RequestContext) -> Answer:
        division = divisions.of(request)
        if division is None:
            return handle(node, request, context)
        return answer_in_pieces(handle, node, request, context, division)

    return handle_large


async def answer_in_pieces(
    handle: Handler,
    node: Node,
    request: Any,
    context: RequestContext,
    division: Division,
) -> Any:
    """The response to a large request, whose pieces are answered one after the other."""
    share = node.cluster.share
    request = await share.run(arrange(request, division))
    pieces = cut(request, division)
    answers: list[Any] = []
    while True:
        coroutine = await share.run(_until_coroutine(handle, node, pieces, context, answers))
        if coroutine is None:
            break
        try:
            answers.append(await coroutine)
        except CloseConnectionError as refusal:
            answers.append(refusal)
        await share.pause()  # it may not have waited for anything
    for answer in answers:
        # Only now: the rest of the request has nothing to do with what was wrong in a piece of it.
        if isinstance(answer, CloseConnectionError):
            raise answer
    whole: Any = None
    for answer in answers:
        # What it answers to has been done already: the later pieces did not wait for it.
        response = await answer if isinstance(answer, asyncio.Future) else answer
        if response is not None:
            whole = response if whole is None else join(whole, response, division)
    return whole


def _until_coroutine(
    handle: Handler,
    node: Node,
    pieces: Iterator[Any],
    context: RequestContext,
    answers: list[Any],
) -> Generator[None, None, Coroutine[Any, Any, Any] | None]:
    """Has pieces answered until one takes its time, before which the next must not begin; None if all are."""
    for piece in pieces:
        try:
            answer = handle(node, piece, context)
        except CloseConnectionError as refusal:
            answer = refusal
        if inspect.iscoroutine(answer):
            return answer
        answers.append(answer)
        yield
    return None
