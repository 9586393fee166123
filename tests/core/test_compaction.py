"""When a log is cleaned, how far, and in which pieces; what becomes of records is in tests/broker."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.compaction import (
    ENTRY_BYTES,
    Aborted,
    Cleanable,
    LastOffsets,
    cleanable,
    first_dirty_offset,
    group_segments,
    is_overdue,
)
from ottla.records.batch import BatchFlag, build_batch, read_header
from ottla.records.control import MarkerType, build_marker_batch
from ottla.records.record import Record

NOW_MS = 10_000
INT32_MAX = 2**31 - 1


class Piece(NamedTuple):
    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int = 0


# Ten offsets and a hundred bytes each; the last one is active.
PIECES = [Piece(number * 10, number * 10 + 10, 100, 1000 * number) for number in range(5)]


@pytest.mark.parametrize(
    ("cleaned", "start", "end", "expected"),
    [
        (None, 5, 100, 5),
        (50, 5, 100, 50),
        (5, 5, 100, 5),
        (100, 5, 100, 100),
        (4, 5, 100, 5),  # deleted since
        (101, 5, 100, 5),  # cut since: who knows what was written instead
    ],
)
def test_the_dirty_part_begins_where_the_last_cleaning_ended(
    cleaned: int | None, start: int, end: int, expected: int
) -> None:
    assert first_dirty_offset(cleaned, start, end) == expected


def test_everything_but_the_active_segment_can_be_cleaned() -> None:
    assert cleanable(PIECES, 20, 50, NOW_MS, 0) == Cleanable(20, 40, 200, 200)


@pytest.mark.parametrize(("stable", "end"), [(50, 40), (39, 30), (30, 30), (29, 20), (5, 0)])
def test_nothing_at_or_above_the_last_stable_offset_is_cleaned(stable: int, end: int) -> None:
    assert cleanable(PIECES, 0, stable, NOW_MS, 0).end_offset == end


@pytest.mark.parametrize(("lag_ms", "end"), [(0, 40), (7000, 40), (7001, 30), (8001, 20)])
def test_segments_with_recent_records_are_left_alone(lag_ms: int, end: int) -> None:
    assert cleanable(PIECES, 0, 50, NOW_MS, lag_ms).end_offset == end


def test_recent_records_that_are_clean_already_hold_nothing_up() -> None:
    pieces = [PIECES[0]._replace(max_timestamp_ms=NOW_MS), *PIECES[1:]]
    assert cleanable(pieces, 10, 50, NOW_MS, 5000).end_offset == 40


def test_the_dirty_share_decides_unless_it_is_overdue() -> None:
    found = Cleanable(20, 40, 300, 100)
    assert found.dirty_ratio == 0.25
    assert found.is_due(0.24, False)
    assert not found.is_due(0.25, False)
    assert found.is_due(0.25, True)
    assert not found._replace(dirty_bytes=0).is_due(0, True)
    assert not Cleanable(0, 0, 0, 0).is_due(0, True)


def test_records_without_a_timestamp_are_never_overdue() -> None:
    assert is_overdue(6999, NOW_MS, 3000)
    for timestamp_ms in (7000, -1, 0):
        assert not is_overdue(timestamp_ms, NOW_MS, 3000)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 120))
def test_groups_are_neighbours_that_fit_and_could_not_be_fewer(
    sizes: list[int], max_bytes: int
) -> None:
    pieces = [Piece(number, number + 1, size) for number, size in enumerate(sizes)]
    groups = group_segments(pieces, max_bytes, 1 << 20, 4096)
    assert [piece for group in groups for piece in group] == pieces
    for group, following in zip(groups, [*groups[1:], []], strict=True):
        size = sum(piece.size_bytes for piece in group)
        assert size <= max_bytes or len(group) == 1
        if following:
            assert size + following[0].size_bytes > max_bytes


def test_groups_have_room_in_the_index_and_for_relative_offsets() -> None:
    pieces = [Piece(number, number + 1, 1000) for number in range(6)]
    assert [len(group) for group in group_segments(pieces, 1 << 30, 48, 1000)] == [3, 3]
    far = [Piece(0, 10, 1), Piece(10, INT32_MAX + 1, 1), Piece(INT32_MAX + 1, INT32_MAX + 2, 1)]
    assert [len(group) for group in group_segments(far, 1 << 30, 1 << 20, 1000)] == [2, 1]


def keyed(base_offset: int, *keys: bytes | None) -> bytes:
    records = [Record(base_offset + number, 1, key, b"v") for number, key in enumerate(keys)]
    return build_batch(records, base_offset=base_offset)


def add(offsets: LastOffsets, data: bytes) -> bool:
    return offsets.add(data, 0, read_header(data, 0), Aborted())


def test_the_map_holds_what_fits_and_says_how_far_that_is() -> None:
    offsets = LastOffsets(3 * (ENTRY_BYTES + 1), 0)
    assert add(offsets, keyed(0, b"a", b"b", b"a"))
    assert add(offsets, keyed(3, None, b"c"))
    assert offsets.end_offset == 5
    # The known key still fits, the new one does not.
    assert not add(offsets, keyed(5, b"b", b"d", b"a"))
    assert offsets.by_key == {b"a": 2, b"b": 5, b"c": 4}
    assert offsets.end_offset == 6


def test_one_key_always_fits() -> None:
    offsets = LastOffsets(1, 0)
    assert not add(offsets, keyed(0, b"a" * 1000, b"b"))
    assert offsets.end_offset == 1


def test_what_is_clean_is_not_in_the_map() -> None:
    offsets = LastOffsets(1 << 20, 2)
    assert add(offsets, keyed(0, b"a", b"b", b"c"))
    assert offsets.by_key == {b"c": 2}
    offsets.seen_up_to(10)
    assert offsets.end_offset == 10


def in_transaction(base_offset: int, producer_id: int) -> bytes:
    return build_batch(
        [Record(base_offset, 1, b"k", b"v")],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        flags=BatchFlag.TRANSACTIONAL,
    )


def marker(offset: int, producer_id: int, outcome: MarkerType) -> bytes:
    return build_marker_batch(
        outcome,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=offset,
    )


def test_transactions_of_several_producers_are_told_apart() -> None:
    aborted = Aborted()
    assert aborted.see(in_transaction(0, 1) + in_transaction(1, 2) + in_transaction(2, 1)) == 3
    undecided = [aborted.has_open]
    assert aborted.see(marker(3, 1, MarkerType.ABORT) + marker(4, 2, MarkerType.COMMIT)) == 5
    undecided.append(aborted.has_open)
    assert undecided == [True, False]
    aborted.see(in_transaction(5, 1) + marker(6, 1, MarkerType.COMMIT) + in_transaction(7, 1))
    aborted.see(marker(8, 1, MarkerType.ABORT) + marker(9, 1, MarkerType.ABORT))
    assert [offset for offset in range(10) if aborted.has(1, offset)] == [0, 1, 2, 3, 7, 8]
    assert not any(aborted.has(2, offset) for offset in range(10))
