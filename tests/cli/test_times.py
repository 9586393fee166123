"""Points in time and lengths of time as people write them."""

from __future__ import annotations

import pytest

from ottla.cli.errors import UsageError
from ottla.cli.times import date_ms, duration_ms, moment_ms

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("1.5m", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("P1DT0.5S", 86_400_500),
    ],
)
def test_lengths_of_time_are_read(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
    assert moment_ms(text, NOW_MS) == NOW_MS - ms


@pytest.mark.parametrize("text", ["9" * 19, "9" * 5000, "9" * 400 + "w", f"P{'9' * 20}D"])
def test_a_time_that_kafka_has_no_number_for_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is too l"):
        moment_ms(text, NOW_MS)


@pytest.mark.parametrize("text", ["", "10", "m", "10x", "1h 30m", "-5m", "P", "PT", "10m!"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:02Z", 2000),
    ],
)
def test_times_without_a_zone_are_utc(text: str, ms: int) -> None:
    assert date_ms(text) == ms
    assert moment_ms(text, NOW_MS) == ms


def test_moments_are_numbers_or_now() -> None:
    assert moment_ms("1234567890123", NOW_MS) == 1_234_567_890_123
    assert moment_ms("now", NOW_MS) == NOW_MS
    with pytest.raises(UsageError, match="not a time"):
        moment_ms("yesterday", NOW_MS)
