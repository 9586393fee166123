"""Going on when an engine is done, which may be at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def settled(outcome: asyncio.Future[T] | T) -> T:
    """What an engine returned, once it is there."""
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


def after(
    outcome: asyncio.Future[None] | None, follow: Callable[[], asyncio.Future[None] | None]
) -> asyncio.Future[None] | None:
    """Calls `follow` when an engine is done: now if it is. What fails first is raised, or fails the future."""
    if outcome is None:
        return follow()

    async def follow_later(first: asyncio.Future[None]) -> None:
        await first
        await settled(follow())

    return asyncio.ensure_future(follow_later(outcome))
