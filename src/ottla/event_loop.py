"""Which event loop brokers and clients run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, else the standard one."""
    make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ImportError):
        import uvloop

        make = uvloop.new_event_loop
    return make()
