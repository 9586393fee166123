"""The end of clients: with the block of an `async with`, and of the user's code that they were given."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn, Self

log = logging.getLogger("ottla.client")


class ClosedByBlock(ABC):
    """A client that is closed at the end of an `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the client and its connections."""

    def __reduce__(self) -> NoReturn:
        raise not_pickled(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    # Type checkers know by themselves that a plain `with` is wrong.
    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise not_by_plain_with(self)

        def __exit__(self, *raised: object) -> None:
            """Nothing: it is only looked for."""


def not_by_plain_with(client: object) -> TypeError:
    """Asyncio's clients are closed by awaiting."""
    name = type(client).__name__
    return TypeError(
        f"ottla.aio.{name} is closed by awaiting: write `async with`, or use ottla.{name} without asyncio"
    )


def not_pickled(client: object) -> TypeError:
    """A client has connections, and cannot go elsewhere."""
    return TypeError(
        f"{type(client).__name__} objects cannot be pickled or copied: make one in the process that uses it"
    )


def close_user_code(things: Iterable[object]) -> None:
    """Closes serializers and the like, as far as they can be closed; what they raise is only logged."""
    for thing in things:
        close = getattr(thing, "close", None)
        if callable(close):
            try:
                close()
            except Exception:
                log.warning("%r did not close", thing, exc_info=True)
