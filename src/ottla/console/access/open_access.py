"""A console without a login: everybody who reaches it has the console's own rights."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request

from ottla.console.access.identity import Identity
from ottla.console.access.roles import Role
from ottla.console.clients import Clients
from ottla.console.http.errors import ApiError
from ottla.console.http.routes import Route


class OpenAccess:
    """Identifies everybody as the console itself."""

    def __init__(self, clients: Clients, *, is_read_only: bool) -> None:
        role = Role.VIEWER if is_read_only else Role.ADMIN
        self._identity = Identity("anonymous", role, clients)

    async def identify(self, request: Request, route: Route) -> Identity:
        """The one identity, if its role is enough for the route."""
        if self._identity.role < route.role:
            raise ApiError(HTTPStatus.FORBIDDEN, "this console only shows: it is read-only")
        return self._identity
