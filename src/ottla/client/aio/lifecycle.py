"""Parts of all asyncio clients: `async with`, the check of the event loop, closing serializers, deprecated awaits."""

from __future__ import annotations

import asyncio
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Self, cast

from ottla.errors import IllegalStateError

P = ParamSpec("P")

log = logging.getLogger("ottla.client")


class ClosedByBlock(ABC):
    """A client that is closed at the end of an `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Close the client and its connections."""

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
            """Never called, since `__enter__` raises; a `with` statement requires it to exist."""


def not_by_plain_with(client: object) -> TypeError:
    """The error of a plain `with` on an asyncio client."""
    name = type(client).__name__
    return TypeError(
        f"ottla.aio.{name} is closed by awaiting: write `async with`, or use ottla.{name} without asyncio"
    )


def not_pickled(client: object) -> TypeError:
    """The error of pickling or copying a client: its connections belong to its process."""
    return TypeError(
        f"{type(client).__name__} objects cannot be pickled or copied: make one in the process that uses it"
    )


def close_user_code(things: Iterable[object]) -> None:
    """Close serializers and interceptors that have a `close`; exceptions are logged, not raised."""
    for thing in things:
        close = getattr(thing, "close", None)
        if callable(close):
            try:
                close()
            except Exception:
                log.warning("%r did not close", thing, exc_info=True)


def check_loop(own: asyncio.AbstractEventLoop, name: str) -> None:
    """Raise if the caller is not on the event loop on which the client was made."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is not own:
        raise IllegalStateError(
            f"{name} belongs to the event loop on which it was made: make another on this one, or use the "
            "blocking client, which threads may share if it is a producer"
        )


def still_awaitable(method: Callable[P, None]) -> Callable[P, None]:
    """Let programs still await a method that was a coroutine function once; awaiting warns.

    Type checkers see a method that returns None, and so report the `await`.
    """
    finished = cast("None", _Finished(method.__name__))

    @wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> None:
        method(*args, **options)
        return finished

    return call


class _Finished:
    """The result of a call that is over: awaiting it returns None at once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __await__(self) -> Iterator[Any]:
        warnings.warn(
            f"{self._name}() does not wait for anything: call it without await",
            DeprecationWarning,
            stacklevel=2,
        )
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "None"
