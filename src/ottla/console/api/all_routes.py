"""The routes of all views."""

from __future__ import annotations

from typing import Final

from ottla.console.api import pipelines, producers, session, transactions
from ottla.console.api.openapi import with_openapi
from ottla.console.http.routes import Route

ALL_ROUTES: Final[list[Route]] = with_openapi(
    [
        *session.ROUTES,
        *pipelines.ROUTES,
        *producers.ROUTES,
        *transactions.ROUTES,
    ]
)
