"""Login for an ASGI application."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from ottla.doors.login import Login, pause_before_refusal

REALM: Final = 'Basic realm="ottla"'


class LoginRequired:
    """An application behind a login; `open_paths` are for everybody."""

    def __init__(self, app: Any, accounts: Login, open_paths: Container[str]) -> None:
        self._app = app
        self._accounts = accounts
        self._open_paths = open_paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or scope.get("path") in self._open_paths:
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization")
        if self._accounts.admits(None if given is None else given.decode("latin-1")):
            await self._app(scope, receive, send)
            return
        await pause_before_refusal()
        headers = [(b"www-authenticate", REALM.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
