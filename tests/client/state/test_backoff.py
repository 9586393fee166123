"""Pauses between attempts grow, differ from client to client, and have a limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.state.backoff import Backoff

times_ms = st.integers(0, 10**6)
units = st.floats(0, 1, exclude_max=True)


@given(times_ms, times_ms, st.integers(0, 10**6), units)
def test_a_pause_is_never_above_the_limit(
    initial_ms: int, more_ms: int, attempt: int, unit: float
) -> None:
    pause_ms = Backoff(initial_ms, initial_ms + more_ms).delay_ms(attempt, unit)
    assert 0.8 * initial_ms <= pause_ms <= initial_ms + more_ms


def test_pauses_double_and_are_spread_by_a_fifth() -> None:
    backoff = Backoff(100, 1000)
    assert [backoff.delay_ms(attempt, 0.5) for attempt in range(5)] == [100, 200, 400, 800, 1000]
    assert backoff.delay_ms(1, 0.0) == 160
    assert 239 < backoff.delay_ms(1, 0.999) < 240
