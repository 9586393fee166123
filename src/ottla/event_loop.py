"""The event loop of brokers and clients, and calls that would block it."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop if it is installed, else the standard one."""
    make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ImportError):
        import uvloop

        make = uvloop.new_event_loop
    return make()


def preload_event_loop() -> None:
    """Imports what `new_event_loop` needs, so that processes that are forked later share it."""
    with suppress(ImportError):
        import uvloop  # noqa: F401


async def addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a host name, without duplicates."""
    try:
        ip_address(host)
    except ValueError:
        return await off_loop(lambda: _look_up(host, port))
    return [host]


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def name_of(address: str, port: int) -> str:
    """The host name of an address; OSError if it has none."""
    return await off_loop(lambda: socket.getnameinfo((address, port), socket.NI_NAMEREQD)[0])


async def off_loop(work: Callable[[], T]) -> T:
    """Run `work` on a daemon thread: its result or exception. If the caller is cancelled, the thread goes on alone.

    uvloop's resolver is not used: it runs on threads of libuv, which crash a forked child when it exits. An executor
    is not used either: its threads are joined when the interpreter ends, and a name server that does not answer, or a
    user's function that hangs, would delay that.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(done.set_result, context.run(work))
        except StopIteration as error:
            # A future refuses StopIteration.
            settle = partial(done.set_exception, RuntimeError(repr(error)))
        except BaseException as error:
            settle = partial(done.set_exception, error)
        # The loop may have been closed meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    threading.Thread(target=run, name="ottla-off-loop", daemon=True).start()
    return await done
