"""One response made of several parts, some of which come later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# A value that is there, or the future of it.
NowOrLater: TypeAlias = T | asyncio.Future[T]


def respond_to_all(
    parts: Sequence[NowOrLater[Any]], respond: Callable[[list[Any]], R]
) -> R | asyncio.Future[R]:
    """The response to all parts, or its future if one of the parts is a future."""
    missing_parts = [part for part in parts if isinstance(part, asyncio.Future)]
    if not missing_parts:
        return respond(list(parts))
    response: asyncio.Future[R] = missing_parts[0].get_loop().create_future()
    missing = len(missing_parts)

    def arrived(_: asyncio.Future[Any]) -> None:
        nonlocal missing
        missing -= 1
        if missing or response.done():
            return
        try:
            response.set_result(
                respond(
                    [part.result() if isinstance(part, asyncio.Future) else part for part in parts]
                )
            )
        except Exception as error:
            response.set_exception(error)

    for part in missing_parts:
        part.add_done_callback(arrived)
    return response


def then(part: NowOrLater[Any], respond: Callable[[Any], R]) -> R | asyncio.Future[R]:
    """What is made of a part, now or later."""
    if not isinstance(part, asyncio.Future):
        return respond(part)
    return respond_to_all([part], lambda parts: respond(parts[0]))


async def all_parts(parts: Sequence[NowOrLater[Any]]) -> list[Any]:
    """The parts, when all of them are there."""
    found = respond_to_all(parts, list)
    result: list[Any] = await found if isinstance(found, asyncio.Future) else found
    return result
