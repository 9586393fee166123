"""How often the cluster is asked."""

from __future__ import annotations

import pytest

from ottla.console.cluster.poller import (
    MAX_ROUND_PAUSE_SECONDS,
    WATCHED_SECONDS,
    pause_after_round,
)


@pytest.mark.parametrize(
    ("took", "pause"),
    [
        (0.0, WATCHED_SECONDS),
        (0.05, WATCHED_SECONDS),
        (0.2, 0.2 * 19),  # a twentieth of the time
        (3.0, MAX_ROUND_PAUSE_SECONDS),  # once, while a broker stalls
        (600.0, MAX_ROUND_PAUSE_SECONDS),
    ],
)
def test_who_looks_sees_no_page_that_is_old_after_one_slow_round(took: float, pause: float) -> None:
    assert pause_after_round(took) == pytest.approx(pause)
