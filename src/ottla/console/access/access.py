"""Who comes in: finds out who makes a request, and keeps out who may not make it."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, NoReturn

from ottla.console.access import session_cookie
from ottla.console.access.cluster_users import ClusterUser, ClusterUsers
from ottla.console.access.identity import ANONYMOUS, Identity
from ottla.console.access.login_limits import LoginLimits
from ottla.console.access.login_refusals import (
    LoginRefusedError,
    LoginUnavailableError,
    NoRightsError,
)
from ottla.console.access.request_checks import SAFE_METHODS, RequestChecks
from ottla.console.access.roles import Role
from ottla.console.access.sessions import SIGNED_OUT, Sessions, TooManySessionsError
from ottla.console.access.tokens import TokenFile, TokenHolder, digest_of
from ottla.console.access.visit import Visit
from ottla.console.clients import Clients, NoClients
from ottla.console.http.errors import ApiError
from ottla.console.settings import ConsoleSettings
from ottla.events import EventLog
from ottla.failed_logins import MAX_DELAY_SECONDS

audit = EventLog("ottla.console.audit")

CSRF_HEADER: Final = "x-csrf-token"
MAX_SHOWN_CHARS: Final = 200
# Logins that the cluster is asked about at the same time, and those that wait for it.
CHECKS_AT_ONCE: Final = 4
MAX_LOGINS: Final = 20
BY_PASSWORD: Final = "password"
BY_TOKEN: Final = "token"


class Access:
    """The logins, the sessions and the roles of one console.

    Without a login everybody who reaches the console is the console itself.
    """

    def __init__(
        self,
        settings: ConsoleSettings,
        clients: Clients,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._most = Role.VIEWER if settings.is_read_only else Role.ADMIN
        self._users = (
            None if settings.login_options is None else ClusterUsers(settings.login_options)
        )
        self._tokens = None if settings.token_file is None else TokenFile(settings.token_file)
        self.sessions: Final = Sessions(now)
        self.limits: Final = LoginLimits(now)
        self.checks: Final = RequestChecks(
            settings.door, settings.allowed_hosts, trusts_proxy=settings.trusts_proxy
        )
        self._cookie = session_cookie.SessionCookie(settings.door.endpoint.port)
        self._open_csrf_token = session_cookie.random_value()
        self._login_count = 0
        self._places = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._watching: asyncio.Task[None] | None = None

    @property
    def logins(self) -> list[str]:
        """The ways to log in; none where nobody has to."""
        found = [(BY_PASSWORD, self._users), (BY_TOKEN, self._tokens)]
        return [name for name, login in found if login is not None]

    def start(self) -> None:
        """Begin to watch the sessions."""
        self._watching = asyncio.get_running_loop().create_task(self.sessions.watch())

    async def close(self) -> None:
        """End all sessions."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.sessions.close()

    # Requests

    async def visit(self, headers: Mapping[str, str], peer: str) -> Visit:
        """Who makes a request; a stranger, if nothing says it."""
        address = self.checks.address_of(headers, peer)
        visit = Visit(address, Identity("", Role.STRANGER, NoClients()))
        visit.is_secure = self.checks.scheme_of(headers) == "https"
        if not self.logins:
            visit.identity = Identity(ANONYMOUS, self._most, self._clients)
            visit.csrf_token = self._open_csrf_token
        elif self._tokens is not None and (token := _bearer_token(headers)) is not None:
            holder = await self._holder_of(token, address)
            visit.identity = self._identity_of(holder)
            visit.role_now = partial(_role_of_token, self._tokens, digest_of(token))
        elif (value := self._cookie.value_of(headers, is_secure=visit.is_secure)) is not None:
            visit.session = await self.sessions.find(value)
            if visit.session is None:
                visit.reason = self.sessions.reason_of(value)
            else:
                visit.identity = visit.session.identity(self._most)
                visit.csrf_token = visit.session.csrf_token
        return visit

    def check(self, visit: Visit, method: str, headers: Mapping[str, str], least: Role) -> None:
        """Raises ApiError where this visitor may not make such a request."""
        if visit.identity.role is Role.STRANGER and least > Role.STRANGER:
            raise ApiError(HTTPStatus.UNAUTHORIZED, "you are not logged in", visit.reason)
        # Logging in and out needs no token: another tab may have done either.
        is_change = method not in SAFE_METHODS and least > Role.STRANGER
        if is_change and visit.csrf_token is not None:
            given = headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(given.encode(), visit.csrf_token.encode()):
                raise ApiError(
                    HTTPStatus.FORBIDDEN,
                    f"the header {CSRF_HEADER} is not that of the session",
                    "GET /api/session tells it; load the page again",
                )
        self.check_role(visit, least)

    def check_role(self, visit: Visit, least: Role) -> None:
        """Raises ApiError where the role is not enough."""
        if visit.identity.role >= least:
            return
        if self._most < least:
            raise ApiError(HTTPStatus.FORBIDDEN, "this console only shows: it is read-only")
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"this needs the role {least.title}, and {visit.identity.name} is {visit.identity.role.title}",
        )

    # Logins

    async def log_in_user(self, visit: Visit, name: str, password: str) -> None:
        """Begin a session of a user of the cluster."""
        if self._users is None:
            raise ApiError(HTTPStatus.BAD_REQUEST, "this console has no login with a password")
        try:
            user, role = await self._check_password(self._users, visit.address, name, password)
        except NoRightsError as error:
            await self._refuse(error, visit.address, name, HTTPStatus.FORBIDDEN)
        except LoginRefusedError as error:
            await self._refuse(error, visit.address, name, HTTPStatus.UNAUTHORIZED)
        except LoginUnavailableError as error:
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), "try again") from error
        self._begin(visit, name, role, user.clients(), owns_clients=True, role_now=user.role)

    async def _check_password(
        self, users: ClusterUsers, address: str, name: str, password: str
    ) -> tuple[ClusterUser, Role]:
        """Asks the cluster; logins that have failed and wait for their answers take no place of others."""
        self._check_limits(address, name)
        if self._login_count >= MAX_LOGINS:
            raise _too_many_logins()
        self._login_count += 1
        try:
            async with self._places:
                # Those that were asked for at the same time may have failed meanwhile.
                self._check_limits(address, name)
                return await users.log_in(name, password)
        finally:
            self._login_count -= 1

    async def log_in_with_token(self, visit: Visit, token: str) -> None:
        """Begin a session of who has a token."""
        tokens = self._tokens
        if tokens is None:
            raise ApiError(HTTPStatus.BAD_REQUEST, "this console has no login with a token")
        holder = await self._holder_of(token, visit.address)
        role_now = partial(_role_of_token, tokens, digest_of(token))
        self._begin(
            visit, holder.name, holder.role, self._clients, owns_clients=False, role_now=role_now
        )

    def log_out(self, visit: Visit) -> None:
        """End the session, if there is one."""
        if visit.session is not None:
            self.sessions.end(visit.session, SIGNED_OUT)
            visit.session = None
        visit.identity = Identity("", Role.STRANGER, NoClients())
        visit.csrf_token = None
        visit.cookies.append(self._cookie.removal(is_secure=visit.is_secure))

    def _begin(
        self,
        visit: Visit,
        name: str,
        role: Role,
        clients: Clients,
        *,
        owns_clients: bool,
        role_now: Callable[[], Awaitable[Role]],
    ) -> None:
        if visit.session is not None:
            self.sessions.end(visit.session, "there is a newer one in this browser")
        try:
            value, session = self.sessions.begin(
                name,
                role,
                clients,
                owns_clients=owns_clients,
                role_now=role_now,
                address=visit.address,
            )
        except TooManySessionsError:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many users are logged in", "try again later"
            ) from None
        audit.info(
            "console_login",
            "%(user)s logged in from %(address)s as %(role)s",
            user=name,
            address=visit.address,
            role=role.title,
        )
        visit.session = session
        visit.identity = session.identity(self._most)
        visit.csrf_token = session.csrf_token
        visit.cookies.append(self._cookie.text(value, is_secure=visit.is_secure))

    async def _holder_of(self, token: str, address: str) -> TokenHolder:
        assert self._tokens is not None
        self._check_limits(address, None)
        try:
            return self._tokens.holder_of(token)
        except LoginRefusedError as error:
            await self._refuse(error, address, None, HTTPStatus.UNAUTHORIZED)

    def _identity_of(self, holder: TokenHolder) -> Identity:
        return Identity(holder.name, min(holder.role, self._most), self._clients)

    def _check_limits(self, address: str, user: str | None) -> None:
        if self.limits.is_too_much(address, user):
            raise _too_many_logins()

    async def _refuse(
        self, error: LoginRefusedError, address: str, user: str | None, status: HTTPStatus
    ) -> NoReturn:
        """Answer a failed login when its time has come."""
        wait_seconds = self.limits.failed(address, user)
        audit.warning(
            "console_login_failed",
            "a login of %(user)s from %(address)s failed: %(reason)s",
            user="a token" if user is None else _shown(user),
            address=address,
            reason=str(error)[:MAX_SHOWN_CHARS],
        )
        await asyncio.sleep(wait_seconds)
        raise ApiError(status, str(error)) from error


def _too_many_logins() -> ApiError:
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        "too many logins failed",
        "try again in some seconds",
        retry_after_seconds=int(MAX_DELAY_SECONDS),
    )


async def _role_of_token(tokens: TokenFile, digest: bytes) -> Role:
    try:
        return tokens.holder_of_digest(digest).role
    except LoginRefusedError:
        raise LoginRefusedError("the token is not valid any more") from None


def _bearer_token(headers: Mapping[str, str]) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else None


def _shown(name: str) -> str:
    return name if len(name) <= MAX_SHOWN_CHARS else f"{name[:MAX_SHOWN_CHARS]}…"
