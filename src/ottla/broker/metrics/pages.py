"""The pages that a broker serves by HTTP: its metrics, whether it is well, and its internals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from ottla.broker.internals.internals_page import EVENTS_PATH, INTERNALS_PATH, InternalsPage
from ottla.broker.metrics.listener import HEALTH_PATH, Reply, text_reply
from ottla.exposition import CONTENT_TYPE, Page

METRICS_PATH: Final = "/metrics"
# A page is reused this long: making one for thousands of topics takes tens of milliseconds.
PAGE_SECONDS: Final = 1.0
HEALTHY: Final = "ok"


class MetricsPage:
    """The text of `collect`, for PAGE_SECONDS."""

    def __init__(self, collect: Callable[[], Awaitable[Page]]) -> None:
        self._collect = collect
        self._collecting = asyncio.Lock()
        self._cached: bytes | None = None

    async def body(self) -> bytes:
        """The page."""
        # One at a time: several scrapes at once make the broker no slower than one does.
        async with self._collecting:
            if self._cached is None:
                pieces = []
                for piece in (await self._collect()).pieces():
                    pieces.append(piece)
                    await asyncio.sleep(0)  # serve other requests
                self._cached = b"".join(pieces)
                asyncio.get_running_loop().call_later(PAGE_SECONDS, self._let_go)
            return self._cached

    def _let_go(self) -> None:
        self._cached = None


class BrokerPages:
    """Finds a page by its path."""

    def __init__(self, metrics: MetricsPage, internals: InternalsPage) -> None:
        self._metrics = metrics
        self._internals = internals
        self._state = "starting"

    def serving(self) -> None:
        """From now on the broker is healthy."""
        self._state = HEALTHY

    def stopping(self) -> None:
        """From now on the broker is not healthy: it accepts no more requests."""
        self._state = "stopping"

    async def find(self, path: str, query: str) -> Reply:
        """The page at a path."""
        if path == METRICS_PATH:
            return Reply(HTTPStatus.OK, CONTENT_TYPE, await self._metrics.body())
        if path == HEALTH_PATH:
            is_healthy = self._state == HEALTHY
            status = HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
            return text_reply(status, self._state)
        if path in (INTERNALS_PATH, EVENTS_PATH):
            return await self._internals.find(path, query)
        paths = f"{METRICS_PATH}, {INTERNALS_PATH}, {EVENTS_PATH} and {HEALTH_PATH}"
        return text_reply(HTTPStatus.NOT_FOUND, f"there are {paths}")
