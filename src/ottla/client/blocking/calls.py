"""Methods of an asyncio client as methods of the blocking one, with the same signature and docstring."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ottla.client.blocking.loop_thread import LoopThread

C_co = TypeVar("C_co", covariant=True)
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class Face(Protocol[C_co]):
    """A blocking client: it has an asyncio client on the loop of its thread."""

    @property
    def _thread(self) -> LoopThread: ...

    @property
    def _client(self) -> C_co: ...


def waiting(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Face[C], P], R]:
    """A coroutine method; the caller blocks until it has ended."""

    @wraps(method)
    def call(self: Face[C], /, *args: P.args, **options: P.kwargs) -> R:
        return self._thread.run(method(self._client, *args, **options))

    return call


def calling(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[Face[C], P], R]:
    """A plain method; it runs on the loop, where the state that it uses belongs."""

    @wraps(method)
    def call(self: Face[C], /, *args: P.args, **options: P.kwargs) -> R:
        async def on_loop() -> R:
            return method(self._client, *args, **options)

        return self._thread.run(on_loop())

    return call
