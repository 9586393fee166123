"""Rates and token buckets are Kafka's, to the millisecond of every wait."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.security.quotas.kafka_rates import KafkaRate, KafkaTokenBucket

from ottla.core.security.quotas.rates import (
    MAX_THROTTLE_MS,
    TokenBucket,
    WindowedRate,
    Windows,
)

ELEVEN_SECONDS = Windows(11, 1000)
# Where Kafka's clock stands: its buckets are full at their first use because of it.
NOW_MS = 1_800_000_000_000

windows = st.builds(Windows, st.integers(1, 12), st.integers(1, 5).map(lambda s: s * 1000))
steps = st.lists(
    st.tuples(
        st.integers(0, 15_000) | st.sampled_from([0, 999, 1000, 1001, 60_000]),
        st.integers(-5_000, 2_000_000) | st.floats(0, 1e6),
    ),
    max_size=25,
)
limits = st.integers(1, 1_000_000) | st.floats(0.01, 1e6)


@given(windows, steps, limits)
def test_a_rate_and_its_waits_are_those_of_kafka(
    measured: Windows, recorded: list[tuple[int, float]], limit: float
) -> None:
    ours, theirs = WindowedRate(), KafkaRate(measured.number, measured.size_ms)
    now_ms = NOW_MS
    for passed_ms, value in recorded:
        now_ms += passed_ms
        ours.record(value, measured, now_ms)
        theirs.record(value, now_ms)
        assert ours.measured_ms(measured, now_ms) == theirs.window_size(now_ms)
        assert ours.per_second(measured, now_ms) == theirs.measure(now_ms)
        expected = min(theirs.throttle_ms(limit, now_ms), MAX_THROTTLE_MS)
        assert ours.throttle_ms(limit, measured, now_ms) == expected


@given(windows, steps, st.lists(limits, min_size=1, max_size=3))
def test_a_bucket_and_its_waits_are_those_of_kafka(
    measured: Windows, taken: list[tuple[int, float]], rates: list[float]
) -> None:
    ours, theirs = TokenBucket(), KafkaTokenBucket(measured.number, measured.size_ms)
    now_ms = NOW_MS
    for number, (passed_ms, tokens) in enumerate(taken):
        now_ms += passed_ms
        rate = rates[number % len(rates)]  # an administrator may change it
        ours.take(tokens, rate, measured, now_ms)
        theirs.record(tokens, rate, now_ms)
        expected = min(theirs.throttle_ms(rate, now_ms), MAX_THROTTLE_MS)
        # At first use theirs is refilled since 1970, which is full up to the rounding of the sum.
        assert ours.throttle_ms(rate, measured, now_ms) == pytest.approx(expected, abs=1)


def test_a_burst_in_the_first_window_counts_over_all_windows() -> None:
    rate = WindowedRate()
    rate.record(25_000, ELEVEN_SECONDS, NOW_MS)
    assert rate.per_second(ELEVEN_SECONDS, NOW_MS) == 2500
    # (2500 - 1000) / 1000 of ten seconds
    assert rate.throttle_ms(1000, ELEVEN_SECONDS, NOW_MS) == 15_000


def test_a_wait_fits_into_a_response() -> None:
    rate = WindowedRate()
    rate.record(1e12, ELEVEN_SECONDS, NOW_MS)
    assert rate.throttle_ms(1, ELEVEN_SECONDS, NOW_MS) == MAX_THROTTLE_MS
    bucket = TokenBucket()
    bucket.take(1e12, 0.001, ELEVEN_SECONDS, NOW_MS)
    assert bucket.throttle_ms(0.001, ELEVEN_SECONDS, NOW_MS) == MAX_THROTTLE_MS


def test_what_is_taken_back_does_not_count() -> None:
    rate = WindowedRate()
    rate.record(5000, ELEVEN_SECONDS, NOW_MS)
    rate.record(900, ELEVEN_SECONDS, NOW_MS + 1)
    rate.record(-900, ELEVEN_SECONDS, NOW_MS + 1)
    assert math.isclose(rate.per_second(ELEVEN_SECONDS, NOW_MS + 1), 5000 / 10.001)


def test_a_full_bucket_allows_all_windows_at_once_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket()
    bucket.take(560, 5, Windows(100, 1000), NOW_MS)
    assert bucket.throttle_ms(5, Windows(100, 1000), NOW_MS) == 12_000
    assert bucket.throttle_ms(5, Windows(100, 1000), NOW_MS + 12_000) == 0
