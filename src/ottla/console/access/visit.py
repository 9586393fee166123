"""What the console knows about who makes one request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ottla.console.access.identity import Identity
from ottla.console.access.roles import Role
from ottla.console.access.sessions import Session


@dataclass
class Visit:
    """A request of somebody; a login or a logout in it changes it."""

    address: str
    identity: Identity
    is_secure: bool = False
    """Whether the browser speaks https."""
    session: Session | None = None
    csrf_token: str | None = None
    """What a change has to bring in a header; None for those who log in with each request."""
    role_now: Callable[[], Awaitable[Role]] | None = None
    """Asks for the rights of who logs in with each request; LoginRefusedError if there are none any more."""
    reason: str | None = None
    """Why the session that the browser knows has ended."""
    cookies: list[str] = field(default_factory=list)
    """What the answer sets."""
