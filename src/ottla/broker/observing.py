"""Counting requests: how many of each API, how long they took, with which errors.

It is done around the handlers, so that a broker whose requests nobody counts has nothing in their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from types import CoroutineType
from typing import Any

from ottla.broker.node import Node
from ottla.broker.request import Answer, Api, Handler, RequestContext
from ottla.broker.response_errors import error_counter_of
from ottla.events import EventLog
from ottla.histogram import Histogram

logger = EventLog(__name__)


class ApiCounts:
    """What there was of one API; errors are by code, and a response may have several."""

    __slots__ = ("begun", "ended", "errors", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun = 0
        self.ended = 0
        self.errors: dict[int, int] = {}
        self.seconds = Histogram()

    def answered(self, response: Any, began: float) -> None:
        """A request has its response; None if the protocol has none."""
        self.ended += 1
        self.seconds.observe(perf_counter() - began)
        if response is not None:
            error_counter_of(type(response))(response, self.errors)


def observed(apis: Mapping[int, Api]) -> tuple[dict[int, Api], list[ApiCounts]]:
    """The same APIs with handlers that count, and what they count in."""
    counts = {key: ApiCounts(api.name) for key, api in apis.items()}
    made = {key: api._replace(handle=_observing(api, counts[key])) for key, api in apis.items()}
    return made, list(counts.values())


def _observing(api: Api, counts: ApiCounts) -> Handler:
    handle = _logging(api) if logger.shows_debug else api.handle

    def observing(node: Node, request: Any, context: RequestContext) -> Answer:
        began = perf_counter()
        counts.begun += 1
        try:
            answer = handle(node, request, context)
        except BaseException:
            counts.ended += 1
            raise
        if isinstance(answer, asyncio.Future):
            return _later(answer, counts, began)
        if isinstance(answer, CoroutineType):
            return _run(answer, counts, began)
        counts.answered(answer, began)
        return answer

    return observing


def _later(answer: asyncio.Future[Any], counts: ApiCounts, began: float) -> asyncio.Future[Any]:
    """As the answer; a response that is made when it is sent is looked at then."""
    outer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def forward(done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if outer.done() or done.cancelled():
            counts.ended += 1
            outer.cancel()
        elif error is not None:
            counts.ended += 1
            outer.set_exception(error)
        elif callable(done.result()):
            outer.set_result(_made_later(done.result(), counts, began))
        else:
            counts.answered(done.result(), began)
            outer.set_result(done.result())

    if answer.done():
        forward(answer)
    else:
        answer.add_done_callback(forward)
        outer.add_done_callback(lambda done: answer.cancel() if done.cancelled() else None)
    return outer


def _made_later(make: Callable[[], Any], counts: ApiCounts, began: float) -> Callable[[], Any]:
    seconds = perf_counter() - began
    counts.ended += 1
    counts.seconds.observe(seconds)

    def made() -> Any:
        response = make()
        error_counter_of(type(response))(response, counts.errors)
        return response

    return made


async def _run(coroutine: CoroutineType[Any, Any, Any], counts: ApiCounts, began: float) -> Any:
    try:
        response = await coroutine
    except BaseException:
        counts.ended += 1
        raise
    counts.answered(response, began)
    return response


def _logging(api: Api) -> Handler:
    def logging(node: Node, request: Any, context: RequestContext) -> Answer:
        logger.debug(
            "request",
            "%(api)s v%(version)d of client %(client_id)s at %(peer)s",
            api=api.name,
            version=context.version,
            client_id=context.client_id,
            peer=str(context.peer),
            node=node.node_id,
        )
        return api.handle(node, request, context)

    return logging
