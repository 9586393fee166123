"""Groups, their members, lags and rebalances, and resetting offsets."""

from __future__ import annotations

from typing import Final

from ottla.console.http.routes import Route

ROUTES: Final[list[Route]] = []
