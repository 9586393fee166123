"""Trying again what is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.storage.shared.errors import ObjectsUnavailableError, SequencerUnavailableError
from ottla.storage.shared.options import SharedOptions

T = TypeVar("T")


async def until_available(
    call: Callable[[], Awaitable[T]], budget_seconds: float, options: SharedOptions
) -> T:
    """Repeats a call that may be repeated, with growing pauses; raises its last error when the budget has ended."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + budget_seconds
    pause_seconds = options.first_retry_seconds
    while True:
        try:
            return await call()
        except (SequencerUnavailableError, ObjectsUnavailableError):
            if loop.time() + pause_seconds > deadline:
                raise
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, options.last_retry_seconds)
