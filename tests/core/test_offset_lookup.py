from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.leader_epochs import EpochStart
from ottla.core.offset_lookup import (
    NOT_FOUND,
    SEARCHED_AT_ONCE_BYTES,
    FoundOffset,
    SearchMaxTimestamp,
    SearchTimestamp,
    below,
    check_position,
    decide_lookup,
    first_at,
    first_at_once,
    needs_search,
)
from ottla.core.outcomes import TAKES_LONG, Refused
from ottla.core.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.core.producer_state import ProducerStates
from ottla.errors import ErrorCode
from ottla.records.batch import TimestampType, build_batch
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record


def batch(*timestamps_ms: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch from offset 10 on, of leader epoch 3."""
    records = [Record(10 + number, time, None, b"v") for number, time in enumerate(timestamps_ms)]
    return build_batch(records, base_offset=10, leader_epoch=3, codec=codec)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_timestamp_finds_the_first_record_that_is_not_earlier(codec: Codec) -> None:
    """Trap 10: not the batch's first record, and not the one with the largest timestamp."""
    assert first_at(batch(100, 300, 200, 300, codec=codec), 150, 0) == FoundOffset(11, 300, 3)


def test_an_exact_timestamp_is_found() -> None:
    assert first_at(batch(100, 200, 300), 200, 0) == FoundOffset(11, 200, 3)


def test_records_before_the_start_of_the_log_are_not_found() -> None:
    assert first_at(batch(100, 300, 200), 150, 12) == FoundOffset(12, 200, 3)


def test_a_timestamp_after_the_last_one_finds_nothing() -> None:
    assert first_at(batch(100, 200), 201, 0) == NOT_FOUND


def test_the_largest_timestamp_is_that_of_the_first_record_that_has_it() -> None:
    assert first_at(batch(100, 300, 200, 300), 300, 0) == FoundOffset(11, 300, 3)


def test_with_log_append_time_every_record_has_the_time_of_the_batch() -> None:
    records = [Record(10, 1, None, b""), Record(11, 2, None, b"")]
    data = build_batch(
        records,
        base_offset=10,
        leader_epoch=3,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_time_ms=900,
    )
    assert first_at(data, 900, 0) == FoundOffset(10, 900, 3)
    assert first_at(data, 500, 11) == FoundOffset(11, 900, 3)
    assert first_at(data, 901, 0) == NOT_FOUND


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 22), st.integers(8, 20))
def test_what_is_found_is_what_a_reader_would_find(
    times: list[int], timestamp_ms: int, start_offset: int
) -> None:
    found = first_at(batch(*times), timestamp_ms, start_offset)
    expected = [
        FoundOffset(10 + number, time, 3)
        for number, time in enumerate(times)
        if time >= timestamp_ms and 10 + number >= start_offset
    ]
    assert found == (expected[0] if expected else NOT_FOUND)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_takes_long_is_not_looked_through_at_once(codec: Codec) -> None:
    small = build_batch([Record(0, 7, None, bytes(1000))], leader_epoch=3, codec=codec)
    assert first_at_once(small, 7, 0) == FoundOffset(0, 7, 3)
    value = bytes(SEARCHED_AT_ONCE_BYTES)
    large = build_batch([Record(0, 7, None, value)], leader_epoch=3, codec=codec)
    assert first_at_once(large, 7, 0) is TAKES_LONG
    assert first_at(large, 7, 0) == FoundOffset(0, 7, 3)


@pytest.mark.parametrize("codec", list(Codec))
def test_no_record_is_found_in_a_damaged_batch(codec: Codec) -> None:
    damaged = bytearray(batch(100, 200, codec=codec))
    damaged[-3] ^= 1
    for find in (first_at, first_at_once):
        with pytest.raises(CorruptRecordsError, match="the checksum of the batch at 10 is wrong"):
            find(damaged, 150, 0)


# Positions.


class History(NamedTuple):
    epochs: Sequence[EpochStart] = ()


FIRST_VERSIONS = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}


@pytest.mark.parametrize("version", range(1, 12))
def test_a_request_may_name_the_positions_of_its_version(version: int) -> None:
    for timestamp in range(-8, 3):
        known = timestamp >= 0 or FIRST_VERSIONS.get(timestamp, 99) <= version
        refused = Refused(ErrorCode.UNSUPPORTED_VERSION)
        assert check_position(timestamp, version) == (None if known else refused)


def partition() -> Partition:
    """From 10 to 50 are visible, to 60 written, and a transaction is open at 40."""
    made = Partition(5, 10, 60, ProducerStates())
    made.high_watermark = 50
    made.producers._open[40] = 7
    return made


@pytest.mark.parametrize(
    ("timestamp", "isolation_level", "found"),
    [
        (-1, READ_UNCOMMITTED, FoundOffset(50, -1, 5)),
        (-1, READ_COMMITTED, FoundOffset(40, -1, 5)),
        (-2, READ_UNCOMMITTED, FoundOffset(10, -1, 3)),
        (-2, READ_COMMITTED, FoundOffset(10, -1, 3)),
        (-4, READ_UNCOMMITTED, FoundOffset(10, -1, 3)),
        (-5, READ_UNCOMMITTED, NOT_FOUND),
        (-6, READ_UNCOMMITTED, NOT_FOUND),
        (-3, READ_UNCOMMITTED, SearchMaxTimestamp(50)),
        (-3, READ_COMMITTED, SearchMaxTimestamp(40)),
        (0, READ_UNCOMMITTED, SearchTimestamp(0, 10, 50)),
        (77, READ_COMMITTED, SearchTimestamp(77, 10, 40)),
    ],
)
def test_positions_are_known_and_timestamps_are_searched(
    timestamp: int, isolation_level: int, found: object
) -> None:
    history = History((EpochStart(3, 0), EpochStart(5, 20)))
    decision = decide_lookup(partition(), history, timestamp, isolation_level)
    assert decision == found
    assert type(decision) is type(found)
    assert needs_search(timestamp) == (not isinstance(found, FoundOffset))


def test_the_start_of_a_log_without_records_has_the_current_epoch() -> None:
    assert decide_lookup(partition(), History(), -2, READ_UNCOMMITTED) == FoundOffset(10, -1, 5)


def test_a_record_that_the_reader_may_not_see_is_not_found() -> None:
    assert below(FoundOffset(39, 7, 3), 40) == FoundOffset(39, 7, 3)
    assert below(FoundOffset(40, 7, 3), 40) is NOT_FOUND
