"""The subjects of the schema registry and their versions."""

from __future__ import annotations

from typing import Final

from ottla.console.http.routes import Route

ROUTES: Final[list[Route]] = []
