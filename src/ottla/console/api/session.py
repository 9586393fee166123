"""Who is using the console, and what of it is switched on; the live stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from ottla.console.http.routes import Call, Route, ServerEvent
from ottla.version import VERSION


@dataclass(frozen=True)
class Session:
    """What the page needs to know before anything else."""

    user: str
    role: str
    is_read_only: bool
    has_registry: bool
    has_internals: bool
    version: str


async def session(call: Call[None, None]) -> Session:
    """Who asks."""
    settings = call.console.settings
    return Session(
        user=call.identity.name,
        role=call.identity.role.title,
        is_read_only=settings.is_read_only,
        has_registry=settings.registry_url is not None,
        has_internals=settings.internals_url is not None,
        version=VERSION,
    )


def live(call: Call[None, None]) -> AsyncIterator[ServerEvent]:
    """What happens, as it happens."""
    return call.console.live.listen()


ROUTES: Final = [
    Route("GET", "/api/session", session, "Who is using the console"),
    Route("GET", "/api/live", live, "Events as they happen"),
]
