"""Work that may block, on a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def off_loop(work: Callable[[], T]) -> T:
    """What `work` returns or raises; a caller that is cancelled leaves it behind.

    The threads of an executor are waited for when the interpreter ends: a name server that does not
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

    threading.Thread(target=run, name="ottla work off the loop", daemon=True).start()
    return await done
