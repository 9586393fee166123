"""`GET /internals` and `GET /internals/events`: JSON for consoles and scripts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from ottla.broker.internals.collection import Json
from ottla.broker.internals.event_ring import EventRing
from ottla.broker.internals.process_identity import IDENTITY
from ottla.broker.metrics.listener import Reply, text_reply

INTERNALS_PATH: Final = "/internals"
EVENTS_PATH: Final = "/internals/events"
JSON: Final = "application/json"
# What was collected is told again for a second, and for twenty times as long as it took to collect it.
KEPT_SECONDS: Final = 1.0
MOST_SHARE: Final = 1 / 20
MAX_EVENTS: Final = 1_000
DEFAULT_EVENTS: Final = 200
# The number of events that are made JSON before the loop serves requests.
SLICE: Final = 100
_MAX_NUMBER_CHARS: Final = 19


class InternalsPage:
    """Makes both pages; `open_reason` says why nobody gets them, if that is so."""

    def __init__(
        self,
        collect: Callable[[], Awaitable[Json]],
        ring: EventRing,
        *,
        open_reason: str | None = None,
    ) -> None:
        self._collect = collect
        self._ring = ring
        self._open_reason = open_reason
        self._collecting = asyncio.Lock()
        self._kept: bytes = b""
        self._kept_until = 0.0

    async def find(self, path: str, query: str) -> Reply:
        """One of the two pages."""
        if self._open_reason is not None:
            return text_reply(HTTPStatus.FORBIDDEN, self._open_reason)
        if path == INTERNALS_PATH:
            return Reply(HTTPStatus.OK, JSON, await self._sections())
        try:
            after, limit = numbers_of(query)
        except ValueError as error:
            return text_reply(HTTPStatus.BAD_REQUEST, str(error))
        return Reply(HTTPStatus.OK, JSON, await self._events(after, limit))

    async def _sections(self) -> bytes:
        async with self._collecting:
            if time.monotonic() >= self._kept_until:
                began = time.monotonic()
                sections = await self._collect()
                pieces = []
                for name, section in sections.items():
                    pieces.append(f"{json.dumps(name)}: {json.dumps(section)}")
                    await asyncio.sleep(0)
                self._kept = ("{" + ",\n".join(pieces) + "}\n").encode()
                now = time.monotonic()
                self._kept_until = now + max(KEPT_SECONDS, (now - began) / MOST_SHARE)
            return self._kept

    async def _events(self, after: int, limit: int) -> bytes:
        found = self._ring.after(after, limit)
        lines = []
        for number, event in enumerate(found, 1):
            lines.append(json.dumps(event.as_json()))
            if number % SLICE == 0:
                await asyncio.sleep(0)
        head = f'"instance": {json.dumps(IDENTITY.instance)}, "newest": {self._ring.newest}'
        return ("{" + head + ', "events": [' + ",\n".join(lines) + "]}\n").encode()


def numbers_of(query: str) -> tuple[int, int]:
    """The numbers `after` and `limit`; raises ValueError."""
    given = parse_qs(query, keep_blank_values=True, max_num_fields=10)
    unknown = given.keys() - {"after", "limit"}
    if unknown:
        raise ValueError(f"there are the parameters after and limit, not {min(unknown)!r}")
    after = _number_of(given, "after", 0)
    return after, min(_number_of(given, "limit", DEFAULT_EVENTS), MAX_EVENTS)


def _number_of(given: dict[str, list[str]], name: str, otherwise: int) -> int:
    texts = given.get(name, [])
    if not texts:
        return otherwise
    text = texts[-1]
    if not (text.isascii() and text.isdigit() and len(text) < _MAX_NUMBER_CHARS):
        raise ValueError(f"{name} is a number, not {text[:50]!r}")
    return int(text)
