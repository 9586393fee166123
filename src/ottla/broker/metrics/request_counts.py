"""Counting the requests of each API, their durations and their errors.

Counting wraps the handlers, so that a broker without metrics does not pay for it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from time import perf_counter
from types import CoroutineType
from typing import Any, NamedTuple

from ottla.broker.node import Node
from ottla.broker.requests.api import Api
from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.plain_answers import PlainAnswers, PlainHandler, PlainReply
from ottla.broker.requests.request import (
    NO_REPLY,
    Detached,
    Handler,
    MadeWhenSent,
    NoReply,
    Reply,
    RequestContext,
)
from ottla.broker.requests.response_errors import (
    ErrorCounter,
    error_counter_of,
    pausing_error_counter_of,
)
from ottla.broker.security.caller import Caller
from ottla.events import EventLog
from ottla.histogram import Histogram

logger = EventLog(__name__)


class ApiCounts:
    """The requests of one API; errors are by code, and a response may have several."""

    __slots__ = ("errors", "failed", "name", "seconds", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting = 0  # for a response
        self.failed = 0  # or were given up: there was no response
        self.errors: dict[int, int] = {}
        self.seconds = Histogram()  # of requests with a response

    @property
    def received(self) -> int:
        """The number of requests."""
        return self.seconds.count + self.waiting + self.failed


def observed(apis: Mapping[int, Api[Any, Any]]) -> tuple[dict[int, Api[Any, Any]], list[ApiCounts]]:
    """The same APIs with handlers that count, and their counts."""
    counts = {key: ApiCounts(api.name) for key, api in apis.items()}
    made = {key: _observed(api, counts[key]) for key, api in apis.items()}
    return made, list(counts.values())


def _observed(api: Api[Any, Any], counts: ApiCounts) -> Api[Any, Any]:
    large = api.handle_large
    # Where every request is logged, each has a handler of its own.
    plain = None if logger.shows_debug else api.handle_plain
    return api._replace(
        handle=_observing(api, api.handle, counts),
        handle_large=None if large is None else _observing(api, large, counts),
        handle_plain=None if plain is None else _observing_plain(plain, counts),
    )


def _observing_plain(handle: PlainHandler, counts: ApiCounts) -> PlainHandler:
    """Each of the requests that are answered together has its share of the time."""

    def observing(
        node: Node, caller: Caller, received: memoryview, start: int, end: int
    ) -> PlainAnswers | PlacedRequest | None:
        began = perf_counter()
        answers = handle(node, caller, received, start, end)
        if answers is None:
            return None
        if isinstance(answers, PlacedRequest):
            _observe_place(answers, counts, began)
            return answers
        if answers.replies is not None:
            return answers._replace(replies=_counted_replies(answers.replies, counts, began))
        count = answers.request_count
        counts.seconds.observe((perf_counter() - began) / count, count)
        return answers

    return observing


class _CountedPlace(NamedTuple):
    """Implements PlaceObserver."""

    counts: ApiCounts
    began: float

    def answered(self, place: PlacedRequest) -> None:
        self.counts.waiting -= 1
        self.counts.seconds.observe(perf_counter() - self.began)
        errors = self.counts.errors
        for code in place.error_codes():
            if code:
                errors[code] = errors.get(code, 0) + 1

    def given_up(self) -> None:
        self.counts.waiting -= 1
        self.counts.failed += 1


def _observe_place(place: PlacedRequest, counts: ApiCounts, began: float) -> None:
    counts.waiting += 1
    observer = _CountedPlace(counts, began)
    if place.is_missing:
        place.observer = observer
    else:
        observer.answered(place)


def _counted_replies(
    replies: Iterable[PlainReply], counts: ApiCounts, began: float
) -> Iterator[PlainReply]:
    try:
        for each in replies:
            yield each._replace(reply=_counted(each.reply, counts, began))
    except BaseException:
        counts.failed += 1
        raise


def _counted(reply: Any, counts: ApiCounts, began: float) -> Any:
    if isinstance(reply, asyncio.Future):
        return _later(reply, counts, began)
    counts.seconds.observe(perf_counter() - began)
    if reply is not NO_REPLY:
        error_counter_of(type(reply))(reply, counts.errors)
    return reply


def _observing(
    api: Api[Any, Any], handle: Handler[Any, Any], counts: ApiCounts
) -> Handler[Any, Any]:
    if logger.shows_debug:
        handle = _logging(api, handle)
    # Local names: this is done for every request.
    errors, histogram, now = counts.errors, counts.seconds, perf_counter
    bounds, buckets = histogram.bounds, histogram.counts
    counters: dict[type, ErrorCounter] = {NoReply: lambda response, errors: None}

    def observing(node: Node, request: Any, context: RequestContext) -> Reply[Any]:
        began = now()
        try:
            answer = handle(node, request, context)
        except BaseException:
            counts.failed += 1
            raise
        kind = type(answer)
        count_errors = counters.get(kind)
        if count_errors is None:
            if isinstance(answer, asyncio.Future):
                return _later(answer, counts, began)
            if isinstance(answer, CoroutineType):
                return _run(node, answer, counts, began)
            count_errors = counters[kind] = error_counter_of(kind)
        seconds = now() - began
        buckets[bisect_left(bounds, seconds)] += 1
        histogram.total += seconds
        count_errors(answer, errors)
        return answer

    return observing


def _later(answer: asyncio.Future[Any], counts: ApiCounts, began: float) -> asyncio.Future[Any]:
    """The same future; the errors of a response that is made when it is sent are counted then."""
    outer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    counts.waiting += 1

    def forward(done: asyncio.Future[Any]) -> None:
        counts.waiting -= 1
        error = None if done.cancelled() else done.exception()
        if outer.done() or done.cancelled():
            counts.failed += 1
            outer.cancel()
        elif error is not None:
            counts.failed += 1
            outer.set_exception(error)
        else:
            counts.seconds.observe(perf_counter() - began)
            outer.set_result(_with_errors_counted(done.result(), counts))

    if answer.done():
        forward(answer)
    else:
        answer.add_done_callback(forward)
        outer.add_done_callback(lambda done: answer.cancel() if done.cancelled() else None)
    return outer


def _with_errors_counted(response: Any, counts: ApiCounts) -> Any:
    """The response, whose errors are counted now, or when it is made."""
    if isinstance(response, MadeWhenSent):
        make = response.make
        return MadeWhenSent(lambda: _with_errors_counted(make(), counts))
    error_counter_of(type(response))(response, counts.errors)
    return response


async def _run(
    node: Node, coroutine: Coroutine[Any, Any, Any], counts: ApiCounts, began: float
) -> Any:
    counts.waiting += 1
    try:
        response = await coroutine
    except BaseException:
        counts.failed += 1
        raise
    finally:
        counts.waiting -= 1
    if isinstance(response, Detached):
        return Detached(_run(node, response.coroutine, counts, began))
    counts.seconds.observe(perf_counter() - began)
    if response is not NO_REPLY:
        count_errors = pausing_error_counter_of(type(response))
        await node.cluster.share.run(count_errors(response, counts.errors))
    return response


def _logging(api: Api[Any, Any], handle: Handler[Any, Any]) -> Handler[Any, Any]:
    def logging(node: Node, request: Any, context: RequestContext) -> Reply[Any]:
        logger.debug(
            "request",
            "%(api)s v%(version)d of client %(client_id)s at %(peer)s",
            api=api.name,
            version=context.version,
            client_id=context.client_id,
            peer=str(context.caller.peer),
            node=node.node_id,
        )
        return handle(node, request, context)

    return logging
