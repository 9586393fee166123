"""Who is using the console, and what of it is switched on; logging in and out; the live stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from ottla.console.access.roles import Role
from ottla.console.http.errors import bad_request
from ottla.console.http.routes import Call, Route, ServerEvent
from ottla.errors import OttlaError
from ottla.version import VERSION

# Strangers may send this.
MAX_LOGIN_BYTES: Final = 16 << 10


@dataclass(frozen=True)
class Session:
    """What the page needs to know before anything else; a stranger has no user, no role and no token."""

    user: str | None
    role: str | None
    token: str | None
    """What changes have to bring in the header X-CSRF-Token."""
    needs_login: bool
    logins: list[str]
    """How users log in: `password`, `token`; empty where nobody has to."""
    ended_because: str | None
    """Why the browser's last session ended."""
    is_read_only: bool
    has_registry: bool
    has_internals: bool
    version: str


@dataclass(frozen=True)
class LoginForm:
    """A user of the cluster with its password, or a token."""

    user: str = ""
    password: str = ""
    token: str = ""


async def session(call: Call[None, None]) -> Session:
    """Who asks."""
    return _session_of(call)


async def log_in(call: Call[None, LoginForm]) -> Session:
    """Begins a session, which a cookie names; one of before ends."""
    form, access = call.body, call.console.access
    if form.token and (form.user or form.password):
        raise bad_request("give a user and a password, or a token")
    if form.token:
        await access.log_in_with_token(call.visit, form.token)
    else:
        await access.log_in_user(call.visit, form.user, form.password)
    return _session_of(call)


async def log_out(call: Call[None, None]) -> None:
    """Ends the session of the browser and closes its connections to the cluster."""
    call.console.access.log_out(call.visit)


async def live(call: Call[None, None]) -> AsyncIterator[ServerEvent]:
    """What happens, as it happens, as far as the user may see it."""
    async with aclosing(call.console.live.listen()) as events:
        async for event in events:
            if event.is_for_everybody or await _is_seen(call, event):
                yield event


async def _is_seen(call: Call[None, None], event: ServerEvent) -> bool:
    try:
        return (await call.visible()).sees(event)
    except OttlaError:
        # Nobody knows now what the user may see.
        return False


def _session_of(call: Call[None, None] | Call[None, LoginForm]) -> Session:
    settings, visit = call.console.settings, call.visit
    is_stranger = visit.identity.role is Role.STRANGER
    return Session(
        user=None if is_stranger else visit.identity.name,
        role=None if is_stranger else visit.identity.role.title,
        token=visit.csrf_token,
        needs_login=is_stranger,
        logins=call.console.access.logins,
        ended_because=visit.reason,
        is_read_only=settings.is_read_only,
        has_registry=settings.registry_url is not None,
        has_internals=settings.internals_url is not None,
        version=VERSION,
    )


ROUTES: Final = [
    Route("GET", "/api/session", session, "Who is using the console", role=Role.STRANGER),
    Route(
        "POST",
        "/api/login",
        log_in,
        "Log in",
        body=LoginForm,
        role=Role.STRANGER,
        max_body_bytes=MAX_LOGIN_BYTES,
    ),
    Route("POST", "/api/logout", log_out, "Log out", role=Role.STRANGER),
    Route("GET", "/api/live", live, "Events as they happen"),
]
