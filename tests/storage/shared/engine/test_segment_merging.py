"""Small stored segments are merged, each byte a few times at most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.shared.segment_merging import (
    MAX_MERGED_BYTES,
    MIN_PIECES,
    SMALL_BYTES,
    Piece,
    pieces_to_merge,
)

MIB = 1 << 20
pieces = st.lists(
    st.builds(
        Piece,
        st.one_of(st.integers(0, 100_000), st.integers(0, 2 * SMALL_BYTES)),
        st.integers(0, 20).map(lambda number: number == 0),
    ),
    max_size=60,
)


def of(*sizes: int) -> list[Piece]:
    return [Piece(size_bytes, False) for size_bytes in sizes]


@given(pieces)
def test_what_is_merged_is_allowed(some: list[Piece]) -> None:
    found = pieces_to_merge(some)
    if found is None:
        return
    chosen = some[found.start : found.stop]
    sizes = [piece.size_bytes for piece in chosen]
    assert len(chosen) >= MIN_PIECES
    assert sum(sizes) <= MAX_MERGED_BYTES
    assert max(sizes) < SMALL_BYTES
    assert sum(sizes) >= 2 * max(sizes)
    assert not any(piece.begins_segment for piece in chosen[1:])


def test_equal_neighbours_are_merged_when_there_are_enough() -> None:
    assert pieces_to_merge(of(*[1000] * (MIN_PIECES - 1))) is None
    assert pieces_to_merge(of(*[1000] * MIN_PIECES)) == range(MIN_PIECES)
    assert pieces_to_merge([]) is None


def test_a_large_piece_is_not_written_again_for_a_few_small_ones() -> None:
    assert pieces_to_merge(of(7 * MIB, *[1000] * 7)) is None
    assert pieces_to_merge(of(7 * MIB, *[1000] * 8)) == range(1, 9)
    assert pieces_to_merge(of(7 * MIB, *[MIB] * 8)) == range(9)


def test_large_pieces_and_segments_of_the_log_divide() -> None:
    assert pieces_to_merge(of(*[1000] * 7, SMALL_BYTES, *[1000] * 7)) is None
    assert pieces_to_merge(of(*[1000] * 9, SMALL_BYTES, *[1000] * 7)) == range(9)
    some = of(*[1000] * 14)
    some[7] = Piece(1000, True)
    assert pieces_to_merge(some) is None
    some += of(1000)
    assert pieces_to_merge(some) == range(7, 15)


def test_the_result_has_a_largest_size() -> None:
    found = pieces_to_merge(of(*[7 * MIB] * 20))
    assert found == range(9)


def test_a_byte_is_written_a_few_times_however_long_a_log_grows_slowly() -> None:
    # A piece of 4 KB each minute for two weeks.
    stored: list[int] = []
    appended = written = most = 0
    for _ in range(14 * 24 * 60):
        stored.append(4096)
        appended += 4096
        found = pieces_to_merge(of(*stored))
        while found is not None:
            merged = sum(stored[found.start : found.stop])
            written += merged
            stored[found.start : found.stop] = [merged]
            found = pieces_to_merge(of(*stored))
        most = max(most, len(stored))
    assert sum(stored) == appended
    assert written <= 6 * appended
    assert most <= 40
