"""Sessions: who is logged in with which browser, for how long, and with which rights."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from ottla.console.access.identity import Identity
from ottla.console.access.login_refusals import LoginRefusedError, LoginUnavailableError
from ottla.console.access.roles import Role
from ottla.console.clients import Clients
from ottla.events import EventLog

logger = EventLog("ottla.console.audit")

IDLE_SECONDS: Final = 60 * 60.0
LIFETIME_SECONDS: Final = 12 * 60 * 60.0
# How old what is known of a user's rights may be.
CHECK_SECONDS: Final = 30.0
MAX_WAIT_SECONDS: Final = 3.0
# Checks use at most this part of the time, however many sessions there are.
MAX_CHECK_SHARE: Final = 1 / 10
CHECKS_AT_ONCE: Final = 4
MAX_SESSIONS_OF_USER: Final = 10
MAX_SESSIONS: Final = 500
MAX_STREAMS_OF_SESSION: Final = 20
# Ended sessions whose reason is remembered, so that the page can tell it.
MAX_ENDED: Final = 1000

SIGNED_OUT: Final = "you logged out"


@dataclass(eq=False)
class Session:
    """A login that lasts; `role_now` asks what the user may do now."""

    key: bytes
    """The digest of the cookie's value."""
    name: str
    role: Role
    clients: Clients
    owns_clients: bool
    role_now: Callable[[], Awaitable[Role]]
    address: str
    began_at: float
    used_at: float
    checked_at: float
    csrf_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    check: asyncio.Task[None] | None = None
    """The question for its rights that is under way."""
    stream_count: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    """Why it ended."""

    def identity(self, most: Role) -> Identity:
        """Who makes a request now; a read-only console lets nobody be more than a viewer."""
        return Identity(self.name, min(self.role, most), self.clients)

    @property
    def is_in_use(self) -> bool:
        return self.stream_count > 0


class TooManySessionsError(Exception):
    """There is no place for another session."""


class Sessions:
    """The sessions by the digest of their cookie's value; `now` is a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[bytes, Session] = {}
        self._reasons: dict[bytes, str] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        name: str,
        role: Role,
        clients: Clients,
        *,
        owns_clients: bool,
        role_now: Callable[[], Awaitable[Role]],
        address: str,
    ) -> tuple[str, Session]:
        """A new session and the value of its cookie; the oldest of too many of a user ends."""
        of_user = [each for each in self._sessions.values() if each.name == name]
        if len(of_user) >= MAX_SESSIONS_OF_USER:
            self.end(min(of_user, key=lambda each: each.used_at), "there are newer ones of you")
        if len(self._sessions) >= MAX_SESSIONS:
            raise TooManySessionsError
        now = self._now()
        value = secrets.token_urlsafe(32)
        session = Session(
            key=_digest(value),
            name=name,
            role=role,
            clients=clients,
            owns_clients=owns_clients,
            role_now=role_now,
            address=address,
            began_at=now,
            used_at=now,
            checked_at=now,
        )
        self._sessions[session.key] = session
        return value, session

    async def find(self, value: str) -> Session | None:
        """The session of a cookie, which is used now; its rights are asked for if that was long ago."""
        session = self._sessions.get(_digest(value))
        if session is None or self._is_over(session):
            return None
        if self._now() - session.checked_at > 2 * CHECK_SECONDS:
            # A cluster that takes longer lets the request pass with the rights of before.
            await asyncio.wait([self._checking(session)], timeout=MAX_WAIT_SECONDS)
        if session.ended.is_set():
            return None
        session.used_at = self._now()
        return session

    def reason_of(self, value: str) -> str | None:
        """Why the session of a cookie ended, if that is known."""
        return self._reasons.get(_digest(value))

    def end(self, session: Session, reason: str) -> None:
        """End a session: its streams end, and its clients are closed."""
        if self._sessions.pop(session.key, None) is None:
            return
        self._reasons[session.key] = session.reason = reason
        if len(self._reasons) > MAX_ENDED:
            del self._reasons[next(iter(self._reasons))]
        session.ended.set()
        logger.info(
            "console_session_ended",
            "%(user)s is logged in no longer, from %(address)s: %(reason)s",
            user=session.name,
            address=session.address,
            reason=reason,
        )
        if session.check not in (None, asyncio.current_task()):
            session.check.cancel()
        if session.owns_clients:
            closing = asyncio.get_running_loop().create_task(session.clients.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End all."""
        for session in list(self._sessions.values()):
            self.end(session, "the console stops")
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def watch(self) -> None:
        """Ends sessions that are over, and asks again for the rights of those in use, until it is cancelled."""
        while True:
            began = self._now()
            await self.look()
            took = self._now() - began
            await asyncio.sleep(max(CHECK_SECONDS / 6, took / MAX_CHECK_SHARE))

    async def look(self) -> None:
        """One round of `watch`."""
        now = self._now()
        due = []
        for session in list(self._sessions.values()):
            is_used = session.is_in_use or now - session.used_at < CHECK_SECONDS
            if not self._is_over(session) and is_used and now - session.checked_at >= CHECK_SECONDS:
                due.append(session)
        places = asyncio.Semaphore(CHECKS_AT_ONCE)

        async def check(session: Session) -> None:
            async with places:
                await asyncio.wait([self._checking(session)])

        await asyncio.gather(*map(check, due))

    def _is_over(self, session: Session) -> bool:
        now = self._now()
        if now - session.began_at >= LIFETIME_SECONDS:
            self.end(session, f"it lasted {LIFETIME_SECONDS / 3600:.0f} hours")
        elif now - session.used_at >= IDLE_SECONDS:
            self.end(session, f"it was not used for {IDLE_SECONDS / 60:.0f} minutes")
        return session.ended.is_set()

    def _checking(self, session: Session) -> asyncio.Task[None]:
        if session.check is None or session.check.done():
            session.check = asyncio.get_running_loop().create_task(self._check(session))
        return session.check

    async def _check(self, session: Session) -> None:
        try:
            session.role = await session.role_now()
        except LoginRefusedError as error:
            self.end(session, str(error))
        except LoginUnavailableError as error:
            # A cluster that does not answer lets nobody change anything. It is asked again, but not by each request.
            logger.debug("console_rights_not_known", "%(reason)s", reason=str(error))
        session.checked_at = self._now()


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
