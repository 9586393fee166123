"""Replies of requests that have a meter: each is charged when its response is there, whichever kind of reply it is."""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from ottla.broker.requests.request import (
    NO_REPLY,
    Detached,
    MadeWhenSent,
    NoReply,
    Reply,
    RequestContext,
)
from ottla.broker.security.quotas import Permit, RequestMeter, unlimited

T = TypeVar("T")


def metered(reply: Reply[Any], meter: RequestMeter) -> Reply[Any]:
    """The same reply, whose response is charged when it is made."""
    if isinstance(reply, asyncio.Future):
        return _later(reply, meter)
    if inspect.iscoroutine(reply):
        return charged_in_the_end(reply, meter)
    return _settled(reply, meter)


def _settled(response: Any, meter: RequestMeter) -> Any:
    if isinstance(response, NoReply):
        meter.settle(None)
        return NO_REPLY
    if isinstance(response, MadeWhenSent):
        make = response.make
        return MadeWhenSent(lambda: _made(make, meter))
    return meter.settle(response)


def _made(make: Callable[[], Any], meter: RequestMeter) -> Any:
    meter.begin_step()
    try:
        return meter.settle(make())
    finally:
        meter.end_step()


def _later(answer: asyncio.Future[Any], meter: RequestMeter) -> asyncio.Future[Any]:
    outer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def forward(done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if outer.done() or done.cancelled():
            outer.cancel()
        elif error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(_settled(done.result(), meter))

    if answer.done():
        forward(answer)
    else:
        answer.add_done_callback(forward)
        outer.add_done_callback(lambda done: answer.cancel() if done.cancelled() else None)
    return outer


async def charged_in_the_end(coroutine: Coroutine[Any, Any, Any], meter: RequestMeter) -> Any:
    """Runs a coroutine, and charges its response."""
    try:
        response = await coroutine
    finally:
        coroutine.close()
    if isinstance(response, Detached):
        return Detached(charged_in_the_end(response.coroutine, meter))
    return _settled(response, meter)


@types.coroutine
def _timed_steps(coroutine: Coroutine[Any, Any, T], meter: RequestMeter) -> Generator[Any, Any, T]:
    """Runs a coroutine and counts the time of its steps."""
    failure: BaseException | None = None
    while True:
        meter.begin_step()
        try:
            waits_for = coroutine.send(None) if failure is None else coroutine.throw(failure)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            meter.end_step()
        failure = None
        try:
            yield waits_for
        except BaseException as error:
            failure = error


async def timed(coroutine: Coroutine[Any, Any, T], meter: RequestMeter) -> T:
    """Runs a coroutine; the meter counts the time of its steps, and in the end what was not charged yet."""
    try:
        result = await _timed_steps(coroutine, meter)
        meter.charge_rest()
        return result
    finally:
        coroutine.close()


def partition_permit(context: RequestContext, strict_since: int) -> Permit:
    """Asked before partitions are created or deleted: strict for clients that know how to wait (KIP-599)."""
    meter = context.meter
    if meter is None:
        return unlimited
    return meter.strict_permit() if context.version >= strict_since else meter.lenient_permit()
