"""Pauses: they grow, vary and stay below their limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.state.backoff import Backoff

units = st.floats(0, 1, exclude_max=True)
times_ms = st.floats(0, 1e6)


@given(times_ms, times_ms, st.integers(0, 10**6), units)
def test_no_pause_is_longer_than_the_limit(
    initial_ms: float, max_ms: float, attempt: int, unit: float
) -> None:
    assert 0 <= Backoff(initial_ms, max_ms).delay_ms(attempt, unit) <= max_ms


@given(st.floats(1, 1000), st.integers(0, 20))
def test_pauses_double_on_average(initial_ms: float, attempt: int) -> None:
    backoff = Backoff(initial_ms, 1e12)
    assert backoff.delay_ms(attempt + 1, 0.5) == 2 * backoff.delay_ms(attempt, 0.5)


@given(st.floats(1, 1000), st.integers(0, 20), units)
def test_chance_changes_a_pause_by_a_fifth_at_most(
    initial_ms: float, attempt: int, unit: float
) -> None:
    backoff = Backoff(initial_ms, 1e12)
    middle = initial_ms * 2**attempt
    assert 0.799 * middle <= backoff.delay_ms(attempt, unit) <= 1.201 * middle
