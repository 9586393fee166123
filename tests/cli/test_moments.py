"""Times as people write them."""

from __future__ import annotations

import pytest

from ottla.cli.failing import UsageError
from ottla.cli.moments import date_ms, duration_ms, moment_ms

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1699999999999", 1_699_999_999_999),
        ("now", NOW_MS),
        ("2h", NOW_MS - 2 * HOUR_MS),
        ("1h30m", NOW_MS - HOUR_MS - HOUR_MS // 2),
        ("2h ago", NOW_MS - 2 * HOUR_MS),
        ("-2h", NOW_MS - 2 * HOUR_MS),
        ("P1DT12H", NOW_MS - 36 * HOUR_MS),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14T22:13:20.001Z", NOW_MS + 1),
        ("2023-11-15T00:13:20+02:00", NOW_MS),
        ("2023-11-14", NOW_MS - (22 * 3600 + 13 * 60 + 20) * 1000),
    ],
)
def test_a_moment_is_a_number_a_date_or_how_long_ago(text: str, at_ms: int) -> None:
    assert moment_ms(text, NOW_MS) == at_ms


@pytest.mark.parametrize("text", ["", "yesterday", "2h3", "P", "PT", "2023-13-01", "h", "1.5"])
def test_what_is_no_time_is_told_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(UsageError, match="how long ago"):
        moment_ms(text, NOW_MS)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("250ms", 250), ("1.5s", 1500), ("1w", 168 * HOUR_MS), ("PT0.5S", 500), ("p2d", 48 * HOUR_MS)],
)
def test_durations_are_short_or_as_in_iso_8601(text: str, expected_ms: int) -> None:
    assert duration_ms(text) == expected_ms


def test_a_date_is_no_duration_and_a_duration_no_date() -> None:
    with pytest.raises(UsageError):
        duration_ms("2023-11-14")
    with pytest.raises(UsageError):
        date_ms("2h")
