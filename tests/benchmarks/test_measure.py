"""What is said of a few measurements."""

from __future__ import annotations

from math import inf

import pytest
from benchmarks.measure import interval_of_median


@pytest.mark.parametrize(
    ("count", "ranks"),
    # As tables of the sign test have them: one of 32 series of six is all above or all below the median.
    [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (12, (3, 10)), (20, (6, 15)), (100, (40, 61))],
)
def test_the_interval_of_a_median_is_between_two_of_the_values(
    count: int, ranks: tuple[int, int]
) -> None:
    values = [float(rank) for rank in range(count, 0, -1)]
    assert interval_of_median(values) == ranks


@pytest.mark.parametrize("count", range(6))
def test_of_a_few_values_nothing_can_be_said(count: int) -> None:
    assert interval_of_median([1.0] * count) == (-inf, inf)
