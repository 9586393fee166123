"""What every request has to pass, and what every answer says to browsers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.console.access.request_checks import RequestChecks
from ottla.console.http.answers import error_response
from ottla.console.http.errors import ApiError

API: Final = "/api"
# Nothing but the console's own files: no code and no style inside of the page, no frames, no plugins, no foreign form,
# and no text that becomes HTML or code by a mistake of the page.
CONTENT_SECURITY_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
SECURITY_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
# For a year, browsers do not ask over http. Other names of the domain are none of the console's business.
STRICT_TRANSPORT: Final = {"strict-transport-security": "max-age=31536000"}


class Guard:
    """An application behind the checks of hosts and origins, whose answers have the headers of security."""

    def __init__(self, app: ASGIApp, checks: RequestChecks) -> None:
        self._app = app
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the server has neither websockets nor a lifespan"
        headers = Headers(scope=scope)
        is_secure = self._checks.scheme_of(headers) == "https"
        added = [
            (name.encode(), value.encode())
            for name, value in (SECURITY_HEADERS | (STRICT_TRANSPORT if is_secure else {})).items()
        ]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *added]
            await send(message)

        problem = self._problem(scope, headers)
        app = self._app if problem is None else error_response(problem)
        await app(scope, receive, send_with_headers)

    def _problem(self, scope: Scope, headers: Headers) -> ApiError | None:
        wrong_host = self._checks.host_problem(headers)
        if wrong_host is not None:
            return ApiError(
                HTTPStatus.MISDIRECTED_REQUEST,
                wrong_host,
                "start it with --allowed-host NAME for each name by which browsers call it",
            )
        if not scope["path"].startswith(API):
            return None
        wrong_origin = self._checks.origin_problem(scope["method"], headers)
        if wrong_origin is not None:
            return ApiError(
                HTTPStatus.FORBIDDEN,
                wrong_origin,
                "behind a proxy, --behind-proxy makes the console read what browsers called",
            )
        return None
