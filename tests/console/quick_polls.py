"""A console that looks at its cluster five times a second, so that tests do not wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.console.cluster import poller
from ottla.console.groups import broker_notes
from ottla.console.groups import journal as rebalances
from ottla.console.pipelines import lister
from ottla.console.transactions import coordinators, journal, watch

_QUICK = (
    (poller, "WATCHED_SECONDS", 0.2),
    (poller, "UNWATCHED_SECONDS", 0.4),
    (watch, "TICK_SECONDS", 0.05),
    (watch, "STANDING_MS", 150),
    (watch, "SEARCH_SECONDS", 0.2),
    (coordinators, "MIN_AGE_SECONDS", 0.1),
    (lister, "MIN_AGE_SECONDS", 0.1),
    (journal, "PAUSE_SECONDS", 0.1),
    (rebalances, "PAUSE_SECONDS", 0.1),
    (broker_notes, "MIN_SECONDS", 0.1),
)


@contextmanager
def quick_polls() -> Iterator[None]:
    """Consoles that are in this process look often until the block is left."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in _QUICK:
            patch.setattr(module, name, value)
        yield
