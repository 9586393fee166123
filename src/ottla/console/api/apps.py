"""Retry and dead-letter topics of apps, and replaying letters."""

from __future__ import annotations

from typing import Final

from ottla.console.http.routes import Route

ROUTES: Final[list[Route]] = []
