"""Which event loop brokers and clients run on, and how they look up names."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, else the standard one."""
    make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ImportError):
        import uvloop

        make = uvloop.new_event_loop
    return make()


async def addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a host name, without repetitions."""

    def look_up(flags: int = 0) -> list[str]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    try:
        return look_up(socket.AI_NUMERICHOST)  # an address is its own, and takes no time
    except OSError:
        return await off_loop(look_up)


async def name_of(address: str, port: int) -> str:
    """The host name of an address; OSError if it has none."""
    return await off_loop(lambda: socket.getnameinfo((address, port), socket.NI_NAMEREQD)[0])


async def off_loop(work: Callable[[], T]) -> T:
    """What `work` returns or raises, on a thread that no exit waits for; a caller that is cancelled leaves it behind.

    The loops have ways of their own. uvloop looks up names on threads of libuv, which make a forked child crash when it
    exits; the threads of an executor are waited for when the interpreter ends, and a name server that does not
    answer, or a user's function that hangs, would hold that up.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(done.set_result, context.run(work))
        except StopIteration as error:
            # A future does not take it.
            settle = partial(done.set_exception, RuntimeError(repr(error)))
        except BaseException as error:
            settle = partial(done.set_exception, error)
        # The loop may have been closed in the meantime.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    threading.Thread(target=run, name="ottla-off-loop", daemon=True).start()
    return await done
