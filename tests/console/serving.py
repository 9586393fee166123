"""A console on a thread of its own, for tests that look at it from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ottla.console.running import RunningConsole
from ottla.console.settings import ConsoleSettings
from ottla.doors.door import Door
from ottla.event_loop import new_event_loop

START_SECONDS = 30


class ServedConsole:
    """Can be stopped and started again on its port, as a console that was killed."""

    def __init__(self, servers: str, **settings: Any) -> None:
        self._servers = servers
        self._settings = settings
        self._listen = "127.0.0.1:0"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._console: RunningConsole | None = None
        self.url = ""

    def start(self) -> None:
        """Serve; returns when it can be opened."""
        door = Door.read("console", self._listen)
        options = {"bootstrap.servers": self._servers, **self._settings.get("options", {})}
        others = {name: value for name, value in self._settings.items() if name != "options"}
        self._console = RunningConsole(ConsoleSettings(options, door, **others))
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="console", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._console.start(), self._loop).result(START_SECONDS)
        self._listen = str(self._console.door.endpoint)
        self.url = self._console.url

    def stop(self) -> None:
        """Stop; streams that are open end."""
        if self._console is None or self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._console.stop(), self._loop).result(START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()
        self._console = None


@contextmanager
def serving(servers: str, **settings: Any) -> Iterator[ServedConsole]:
    """A console for the cluster at `servers`; the settings are those of ConsoleSettings."""
    console = ServedConsole(servers, **settings)
    try:
        console.start()
        yield console
    finally:
        console.stop()
