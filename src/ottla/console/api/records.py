"""Records of a topic: search, live tail, decoding, producing, export."""

from __future__ import annotations

from typing import Final

from ottla.console.http.routes import Route

ROUTES: Final[list[Route]] = []
