"""Which event loop brokers and clients run on, and how they look up names."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

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
        return await in_daemon_thread(look_up)


async def name_of(address: str, port: int) -> str:
    """The host name of an address; OSError if it has none."""
    return await in_daemon_thread(
        lambda: socket.getnameinfo((address, port), socket.NI_NAMEREQD)[0]
    )


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Has a question to the system answered that may take long, in a thread that no exit waits for.

    The loops have functions for names. uvloop's use threads of libuv, which make a forked child crash when it exits;
    those of asyncio are joined at the end of the program, however long a name server takes.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not answer.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            told: tuple[Callable[[Any], None], Any] = (answer.set_result, work())
        except Exception as error:
            told = (answer.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, *told)

    threading.Thread(target=run, name="ottla-names", daemon=True).start()
    return await answer
