"""What an Ottla broker tells of itself: events, holds of the loop, storage, cleaner, metrics."""

from __future__ import annotations

from typing import Final

from ottla.console.http.routes import Route

ROUTES: Final[list[Route]] = []
