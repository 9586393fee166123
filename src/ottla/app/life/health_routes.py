"""`/healthz`, `/readyz` and `/metrics` as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.errors import ConfigError
from ottla.exposition import CONTENT_TYPE, Page

if TYPE_CHECKING:
    from starlette.applications import Starlette

_MISSING: Final = "{what} needs Starlette and uvicorn: pip install 'ottla[app]'"
# For everybody: an orchestrator has no login.
PROBES: Final = ("/healthz", "/readyz")
_NO_STORE: Final = {"Cache-Control": "no-store"}


class HealthSource(Protocol):
    """What the routes ask: one app, or the supervisor of several processes. Called on any thread."""

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether the process makes progress as far as it can, and a report."""

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Whether it takes part in its groups, and a report."""

    def page(self) -> Page:
        """The metrics."""


def missing_packages(what: str) -> ConfigError:
    """The error if the packages of the extra are not installed."""
    return ConfigError(_MISSING.format(what=what))


def health_routes(source: HealthSource) -> Starlette:
    """The ASGI application: 200 or 503 with a JSON report, and the metrics for Prometheus."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise missing_packages("the health of an app over HTTP") from error

    # Plain functions: Starlette runs them on threads, so that none of them waits on the loop.
    def healthz(request: Request) -> Response:
        is_healthy, report = source.health()
        return JSONResponse(report, 200 if is_healthy else 503, headers=_NO_STORE)

    def readyz(request: Request) -> Response:
        is_ready, report = source.readiness()
        return JSONResponse(report, 200 if is_ready else 503, headers=_NO_STORE)

    def metrics(request: Request) -> Response:
        return Response(source.page().render(), media_type=CONTENT_TYPE)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
        ]
    )
