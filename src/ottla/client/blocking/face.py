"""The base class of the blocking clients: a thread, the asyncio client on its loop, and `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar

from ottla.client.aio.lifecycle import not_pickled
from ottla.client.blocking.loop_thread import LoopThread

C = TypeVar("C")


class BlockingFace(ABC, Generic[C]):
    """An asyncio client for programs without asyncio."""

    def __init__(
        self, name: str, create: Callable[[], C], abandon: Callable[[C], Awaitable[object]]
    ) -> None:
        """`abandon` ends a client that was not closed; neither of the two may refer to this object."""
        self._thread = LoopThread(name)

        async def make() -> C:
            return create()

        try:
            self._client = client = self._thread.run(make())
        except BaseException:
            self._thread.close()
            raise
        self._thread.on_abandon(lambda: abandon(client))

    @abstractmethod
    def close(self) -> None:
        """Ends the client, its connections and its thread; a second close does nothing."""

    def __reduce__(self) -> NoReturn:
        raise not_pickled(self)

    def __enter__(self) -> Self:
        self._thread.check()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # Type checkers know by themselves that `async with` is wrong.
    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            name = type(self).__name__
            self.close()
            raise TypeError(
                f"ottla.{name} is for programs without asyncio: write `with`, or use ottla.aio.{name}"
            )

        async def __aexit__(self, *raised: object) -> None:
            """Never called, since `__aenter__` raises; an `async with` statement requires it to exist."""
