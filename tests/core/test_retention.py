from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.core.producer_state import ProducerStates
from ottla.core.retention import (
    DeleteUpTo,
    decide_delete_records,
    is_expired,
    last_is_due,
    may_be_due,
    retained_from,
)
from ottla.errors import ErrorCode

NOW_MS, OFF = 10_000, -1


class Piece(NamedTuple):
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int


def pieces(*sizes_and_times: tuple[int, int]) -> list[Piece]:
    """Segments of ten records each."""
    return [
        Piece((number + 1) * 10, size, time) for number, (size, time) in enumerate(sizes_and_times)
    ]


def test_segments_older_than_the_limit_go() -> None:
    segments = pieces((5, 1000), (5, 2000), (5, 8000), (5, 9000))
    assert retained_from(segments, 0, NOW_MS, 5000, OFF) == 20


def test_a_segment_as_old_as_the_limit_stays() -> None:
    assert retained_from(pieces((5, 5000), (5, 9000)), 0, NOW_MS, 5000, OFF) == 0
    assert retained_from(pieces((5, 4999), (5, 9000)), 0, NOW_MS, 5000, OFF) == 10


def test_a_young_segment_protects_older_ones_behind_it() -> None:
    """Deleting from the middle would leave a hole."""
    segments = pieces((5, 9000), (5, 1000), (5, 9000))
    assert retained_from(segments, 0, NOW_MS, 5000, OFF) == 0


def test_surplus_segments_go_while_the_limit_stays_kept() -> None:
    segments = pieces((40, 1), (40, 1), (40, 1))
    assert retained_from(segments, 0, NOW_MS, OFF, 81) == 0
    assert retained_from(segments, 0, NOW_MS, OFF, 80) == 10
    assert retained_from(segments, 0, NOW_MS, OFF, 40) == 20


def test_nothing_is_kept_of_a_log_that_may_hold_no_bytes() -> None:
    (last,) = pieces((5, 9000))
    assert last_is_due(last, NOW_MS, OFF, 0)
    assert not last_is_due(last, NOW_MS, OFF, 1)
    assert not last_is_due(last, NOW_MS, OFF, OFF)
    assert last_is_due(last, NOW_MS, 500, OFF)


def test_the_last_segment_stays() -> None:
    assert retained_from(pieces((5, 1), (5, 1)), 0, NOW_MS, 0, 0) == 10


def test_no_limit_keeps_everything() -> None:
    assert retained_from(pieces((5, 1), (5, 1), (5, 1)), 0, NOW_MS, OFF, OFF) == 0


def test_the_start_never_goes_back() -> None:
    assert retained_from(pieces((5, 1), (5, 9000)), 15, NOW_MS, 5000, OFF) == 15


def test_records_without_a_timestamp_are_not_older_than_everything() -> None:
    """-1 is "no timestamp", not a moment of the year 1969: fresh records must not be deleted."""
    segments = pieces((5, -1), (5, 9000))
    assert not is_expired(segments[0], NOW_MS, 5000)
    assert retained_from(segments, 0, NOW_MS, 5000, OFF) == 0


def test_segments_that_compaction_emptied_go_with_the_next_one_that_goes() -> None:
    """They have no age of their own; they must not protect what is behind them."""
    assert retained_from(pieces((0, -1), (5, 1), (0, -1), (5, 9000)), 0, NOW_MS, 5000, OFF) == 20
    assert retained_from(pieces((0, -1), (5, 9000), (5, 9000)), 0, NOW_MS, 5000, OFF) == 0
    assert retained_from(pieces((0, 9999), (5, 1), (5, 9000)), 0, NOW_MS, 5000, OFF) == 20


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 12_000)), min_size=1, max_size=6),
    st.sampled_from([-1, 0, 3000, 8000]),
    st.integers(-1, 200),
)
def test_repeating_it_comes_to_where_kafkas_two_passes_come(
    made: list[tuple[int, int]], retention_ms: int, retention_bytes: int
) -> None:
    """UnifiedLog.deleteOldSegments: by age, then by size; what the one uncovers the next run sees."""
    segments = pieces(*made)
    left = list(segments)
    while True:
        count = len(left)
        while len(left) > 1 and 0 <= retention_ms < NOW_MS - left[0].max_timestamp_ms:
            left.pop(0)
        if retention_bytes >= 0:
            surplus = sum(piece.size_bytes for piece in left) - retention_bytes
            while len(left) > 1 and surplus - left[0].size_bytes >= 0:
                surplus -= left.pop(0).size_bytes
        if len(left) == count:
            break
    dropped = len(segments) - len(left)
    expected = segments[dropped - 1].end_offset if dropped else 0
    assert retained_from(segments, 0, NOW_MS, retention_ms, retention_bytes) == expected


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(-1, 100)), min_size=2, max_size=6),
    st.integers(-1, 120),
    st.integers(-1, 300),
)
def test_what_is_not_due_by_its_first_segment_keeps_everything(
    shapes: list[tuple[int, int]], retention_ms: int, retention_bytes: int
) -> None:
    now_ms = 110
    segments = pieces(*shapes)
    size_bytes = sum(segment.size_bytes for segment in segments)
    first_ms = segments[0].max_timestamp_ms
    if not may_be_due(size_bytes, first_ms, now_ms, retention_ms, retention_bytes):
        assert retained_from(segments, 0, now_ms, retention_ms, retention_bytes) == 0


def test_an_empty_log_is_never_due() -> None:
    assert not may_be_due(0, -1, 1000, 0, 0)


@pytest.mark.parametrize(
    ("topic", "cleanup_policy", "offset", "outcome"),
    [
        ("orders", ("delete",), -1, DeleteUpTo(50)),
        ("orders", ("delete",), 0, DeleteUpTo(0)),
        ("orders", ("delete", "compact"), 50, DeleteUpTo(50)),
        ("orders", ("delete",), 51, Refused(ErrorCode.OFFSET_OUT_OF_RANGE)),
        ("orders", ("delete",), -2, Refused(ErrorCode.OFFSET_OUT_OF_RANGE)),
        ("orders", ("compact",), 5, Refused(ErrorCode.POLICY_VIOLATION)),
        ("orders", ("compact",), 51, Refused(ErrorCode.POLICY_VIOLATION)),
        ("__consumer_offsets", ("delete",), 5, Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)),
        ("__transaction_state", ("compact",), 5, Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)),
    ],
)
def test_clients_delete_only_what_is_durable_and_theirs(
    topic: str, cleanup_policy: tuple[str, ...], offset: int, outcome: DeleteUpTo | Refused
) -> None:
    partition = Partition(5, 10, 60, ProducerStates())
    partition.high_watermark = 50
    assert decide_delete_records(partition, topic, cleanup_policy, offset) == outcome
