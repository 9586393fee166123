"""A console that looks at its cluster five times a second, so that tests do not wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

import pytest

from ottla.console.apps import letter_counts
from ottla.console.cluster import cluster_questions, poller
from ottla.console.groups import broker_notes
from ottla.console.groups import journal as rebalances
from ottla.console.pipelines import lister
from ottla.console.registry import schema_catalog
from ottla.console.transactions import coordinators, journal, watch

_QUICK: Final[tuple[tuple[ModuleType, str, object], ...]] = (
    (poller, "WATCHED_SECONDS", 0.2),
    (poller, "UNWATCHED_SECONDS", 0.4),
    (cluster_questions, "PERIODS", dict.fromkeys(cluster_questions.PERIODS, 0.2)),
    (poller, "_PAUSES", 1.0),
    (watch, "TICK_SECONDS", 0.05),
    (watch, "STANDING_MS", 150),
    (watch, "SEARCH_SECONDS", 0.2),
    (coordinators, "MIN_AGE_SECONDS", 0.1),
    (lister, "MIN_AGE_SECONDS", 0.1),
    (journal, "PAUSE_SECONDS", 0.1),
    (rebalances, "PAUSE_SECONDS", 0.1),
    (broker_notes, "MIN_SECONDS", 0.1),
    (letter_counts, "MIN_PAUSE_SECONDS", 0.1),
    (schema_catalog, "KEPT_SECONDS", 0.3),
)


@contextmanager
def quick_polls() -> Iterator[None]:
    """Consoles that are in this process look often until the block is left."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in _QUICK:
            patch.setattr(module, name, value)
        yield
