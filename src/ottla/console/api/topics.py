"""Topics and their partitions, offsets, sizes, rates and configs."""

from __future__ import annotations

from typing import Final

from ottla.console.http.routes import Route

ROUTES: Final[list[Route]] = []
