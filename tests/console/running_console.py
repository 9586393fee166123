"""A console in the test's own loop, and its client of HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from ottla.console.console import Console
from ottla.console.running import RunningConsole
from ottla.console.settings import ConsoleSettings
from ottla.doors.door import Door


@dataclass
class ConsoleUnderTest:
    """A console that runs."""

    running: RunningConsole
    console: Console
    url: str

    def browser(self, **options: Any) -> httpx.AsyncClient:
        """A client with cookies of its own."""
        return httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=30, **options)


@asynccontextmanager
async def running_console(
    options: str | Mapping[str, object], *, listen: str = "127.0.0.1:0", **settings: Any
) -> AsyncIterator[ConsoleUnderTest]:
    """A console of a cluster, which is given by its addresses or by the options of a client."""
    if isinstance(options, str):
        options = {"bootstrap.servers": options}
    door = Door.read("--listen", listen, certificate=settings.pop("certificate", None))
    running = RunningConsole(ConsoleSettings(options, door, **settings))
    await running.start()
    try:
        yield ConsoleUnderTest(running, running.console, running.url)
    finally:
        await running.stop()


async def log_in(browser: httpx.AsyncClient, **form: str) -> dict[str, Any]:
    """Logs in, and sends the session's token with every further request."""
    answer = await browser.post("/api/login", json=form)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    browser.headers["x-csrf-token"] = found["token"]
    return found
