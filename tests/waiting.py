"""How tests wait: a wait that ran out is a TimeoutError, which `make test` tells apart (ADR 0021)."""

from __future__ import annotations

import time


def in_time(deadline: float, what: object = "it did not come about") -> None:
    """Fails when it is too late by the monotonic clock."""
    if time.monotonic() >= deadline:
        raise TimeoutError(what)
