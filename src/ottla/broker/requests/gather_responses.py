"""One response made of several answers, some of which come later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any


def together(
    parts: Sequence[Any | asyncio.Future[Any]], respond: Callable[[list[Any]], Any]
) -> Any | asyncio.Future[Any]:
    """The response, or its future if one of the parts is a future."""
    waits = [part for part in parts if isinstance(part, asyncio.Future)]
    if not waits:
        return respond(list(parts))
    response: asyncio.Future[Any] = waits[0].get_loop().create_future()
    missing = len(waits)

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

    for wait in waits:
        wait.add_done_callback(arrived)
    return response


async def gathered(parts: Sequence[Any | asyncio.Future[Any]]) -> list[Any]:
    """All parts, when they are there."""
    found = together(parts, list)
    result: list[Any] = await found if isinstance(found, asyncio.Future) else found
    return result
