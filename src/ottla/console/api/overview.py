"""The overview: throughput, latency, errors, lag, brokers, and what needs attention."""

from __future__ import annotations

from typing import Final

from ottla.console.http.routes import Route

ROUTES: Final[list[Route]] = []
