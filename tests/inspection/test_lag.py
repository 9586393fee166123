"""Which offsets of a log have records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.inspection.lag import ReadStretch, Span

END = 60


def stretch_of(offsets: set[int], start: int, end: int, cuts: set[int]) -> ReadStretch:
    """What was read in pieces that end at `cuts`."""
    stretch = ReadStretch(start)
    at = start
    for cut in [*sorted(each for each in cuts if start < each < end), end]:
        stretch.extend((each for each in sorted(offsets) if at <= each < cut), cut)
        at = cut
    return stretch


@given(
    st.sets(st.integers(0, END - 1)),
    st.integers(0, END),
    st.integers(0, END),
    st.sets(st.integers(0, END)),
    st.integers(0, END),
    st.integers(0, END + 10),
    st.integers(0, END),
)
def test_a_stretch_counts_the_records_that_are_there(
    offsets: set[int], low: int, high: int, cuts: set[int], start: int, end: int, forgotten: int
) -> None:
    low, high = sorted((low, high))
    stretch = stretch_of(offsets, low, high, cuts)
    # What was not read counts as records.
    unread = {each for each in range(END + 10) if not low <= each < high}
    present = unread | offsets
    span = Span(start, end)
    assert stretch.record_count(span) == len(present & set(range(start, end)))
    stretch.forget_before(forgotten)
    assert stretch.start_offset == max(low, forgotten)
    later = Span(max(start, forgotten), end)
    assert stretch.record_count(later) == len(present & set(range(*later)))


def test_gaps_that_meet_are_one() -> None:
    stretch = ReadStretch(0)
    for _ in range(1000):
        stretch.extend((), stretch.end_offset + 1)
    assert stretch.gap_count == 1
    stretch.extend([1000], 1002)
    assert (stretch.gap_count, stretch.record_count(Span(0, 1002))) == (2, 1)
