"""Gaps survive the round trip through text, and any other text says nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.app.delivery.gaps import NO_GAPS, Attempts, Gaps, decode_gaps, encode_gaps, encoded_size

OFFSETS = st.integers(0, 2**50)


@st.composite
def gaps(draw: st.DrawFn, base: int) -> Gaps:
    lengths = draw(st.lists(st.integers(1, 5000), max_size=60).filter(lambda some: True))
    at, ranges = base, []
    for unfinished, finished in zip(lengths[::2], lengths[1::2], strict=False):
        ranges.append((at + unfinished, at + unfinished + finished))
        at = ranges[-1][1]
    attempts = draw(
        st.lists(
            st.builds(
                Attempts,
                st.integers(base, base + 10_000),
                st.integers(1, 1000),
                st.integers(0, 2**42),
            ),
            max_size=5,
        )
    )
    return Gaps(tuple(ranges), tuple(attempts))


@given(st.data(), OFFSETS)
def test_gaps_survive_the_round_trip(data: st.DataObject, base: int) -> None:
    expected = data.draw(gaps(base))
    text = encode_gaps(base, expected, 4096)
    assert text is not None
    assert decode_gaps(text, base) == expected


@given(st.data(), OFFSETS, st.integers(0, 300))
def test_the_text_keeps_to_the_limit_and_drops_attempts_before_ranges(
    data: st.DataObject, base: int, limit: int
) -> None:
    expected = data.draw(gaps(base))
    text = encode_gaps(base, expected, limit)
    if expected == NO_GAPS:
        assert text == ""
    elif text is None:
        assert encoded_size(base, expected.finished) > limit
    else:
        assert len(text) <= limit
        assert text.isascii()
        found = decode_gaps(text, base)
        assert found.finished == expected.finished
        assert found.attempts == expected.attempts[: len(found.attempts)]


@given(st.data(), OFFSETS, OFFSETS)
def test_gaps_of_another_offset_say_nothing(data: st.DataObject, base: int, reset_to: int) -> None:
    text = encode_gaps(base, data.draw(gaps(base)), 4096)
    assert text is not None
    if reset_to != base:
        assert decode_gaps(text, reset_to) == NO_GAPS


@given(st.text() | st.text("ottla1:0AB_z9-", max_size=30).map(lambda text: f"ottla1:7:{text}"))
def test_text_of_others_says_nothing_or_something_well_formed(text: str) -> None:
    found = decode_gaps(text, 7)
    at = 7
    for start, end in found.finished:
        assert at < start < end
        at = end


def test_attempts_alone_never_keep_an_offset_from_being_committed() -> None:
    assert encode_gaps(5, Gaps((), (Attempts(5, 1, 2),)), max_bytes=4) == ""
    assert encode_gaps(5, Gaps(((6, 7),), ()), max_bytes=4) is None


def test_ranges_beyond_any_log_are_not_believed() -> None:
    """A commit at such an offset could not even be sent."""
    text = encode_gaps(5, Gaps(((6, 1 << 63),)), max_bytes=100)
    assert text is not None
    assert decode_gaps(text, 5) == NO_GAPS
