"""What a Fetch may read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.client_batches import NOW_MS, client_batch, header_of, marker_batch

from ottla.core.aborted import AbortedSpan
from ottla.core.fetch import (
    Diverged,
    FetchLimits,
    NothingToRead,
    Read,
    aborted_in,
    check_codec,
    decide_read,
    fetch_limits,
    must_wait,
)
from ottla.core.fetch_session import FetchTarget
from ottla.core.leader_epochs import EpochEnd, EpochStart
from ottla.core.outcomes import Refused
from ottla.core.partition import READ_COMMITTED, READ_UNCOMMITTED, Bounds, Partition
from ottla.core.producer_state import ProducerStates
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.control import MarkerType
from ottla.records.record import Record

OUT_OF_RANGE = Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
ROOM = 10_000


class History(NamedTuple):
    """Epoch 1 from offset 0 on, 3 from 20 on, 5 from 40 on."""

    epochs: Sequence[EpochStart] = (EpochStart(1, 0), EpochStart(3, 20), EpochStart(5, 40))


def partition(start_offset: int = 10, high_watermark: int = 50, end_offset: int = 60) -> Partition:
    made = Partition(5, start_offset, high_watermark, ProducerStates())
    made.end_offset = end_offset
    return made


def target(
    offset: int, *, max_bytes: int = 1000, leader_epoch: int = -1, last_fetched_epoch: int = -1
) -> FetchTarget:
    return FetchTarget("", UUID(int=9), 0, offset, max_bytes, leader_epoch, last_fetched_epoch)


def decide(
    read_from: FetchTarget,
    *,
    of: Partition | None = None,
    isolation_level: int = READ_UNCOMMITTED,
    room_bytes: int = ROOM,
    is_first: bool = True,
) -> Read | NothingToRead | Diverged | Refused:
    found = partition() if of is None else of
    return decide_read(found, History(), read_from, isolation_level, room_bytes, is_first)


# Offsets.


@pytest.mark.parametrize("offset", range(-1, 63))
def test_offsets_from_the_start_up_to_the_high_watermark_can_be_read(offset: int) -> None:
    decision = decide(target(offset))
    bounds = Bounds(10, 50, 50, 50)
    if not 10 <= offset <= 60:
        assert decision == OUT_OF_RANGE
    elif offset < 50:
        assert decision == Read(bounds, 1000, True)
    else:
        assert decision == NothingToRead(bounds)


def with_open_transaction() -> Partition:
    """Records 0 to 2 are plain, 3 to 5 of an open transaction, 6 is plain."""
    made = Partition(5, 0, 0, ProducerStates())
    for data in (
        client_batch(3),
        client_batch(3, producer_id=7, producer_epoch=0, first_sequence=0, transactional=True),
        client_batch(1),
    ):
        made.apply(header_of(data), made.end_offset, data, NOW_MS)
    made.advance_high_watermark(7)
    return made


@pytest.mark.parametrize("offset", range(8))
def test_a_reader_of_committed_records_stops_at_an_open_transaction(offset: int) -> None:
    open_partition = with_open_transaction()
    committed = decide(target(offset), of=open_partition, isolation_level=READ_COMMITTED)
    assert isinstance(committed, Read) == (offset < 3)
    assert isinstance(committed, NothingToRead) == (offset >= 3)
    uncommitted = decide(target(offset), of=open_partition)
    assert isinstance(uncommitted, Read) == (offset < 7)
    assert not isinstance(committed, Refused)
    assert (committed.bounds.high_watermark, committed.bounds.last_stable_offset) == (7, 3)
    marker = marker_batch(7, 0, MarkerType.COMMIT)
    open_partition.apply(header_of(marker), 7, marker, NOW_MS)
    open_partition.advance_high_watermark(8)
    ended = decide(target(offset), of=open_partition, isolation_level=READ_COMMITTED)
    assert isinstance(ended, Read)


# Leader epochs.


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (-1, None),
        (5, None),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_reader_has_to_know_the_leader_epoch(
    leader_epoch: int, error: ErrorCode | None
) -> None:
    decision = decide(target(15, leader_epoch=leader_epoch))
    if error is None:
        assert isinstance(decision, Read)
    else:
        assert decision == Refused(error)
        # Before the offset is looked at: it may be right for another leader.
        assert decide(target(99, leader_epoch=leader_epoch)) == Refused(error)


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "end"),
    [
        (45, 5, None),  # the current epoch, which goes on
        (20, 1, None),  # all of epoch 1
        (21, 1, EpochEnd(1, 20)),  # more of epoch 1 than this log has
        (15, 1, None),
        (40, 3, None),
        (41, 3, EpochEnd(3, 40)),
        (30, 2, EpochEnd(1, 20)),  # an epoch that this log does not have
        (30, 4, EpochEnd(3, 40)),
        (15, 0, EpochEnd(0, 0)),  # an epoch before the first one of this log
    ],
)
def test_a_reader_of_a_lost_tail_is_told_where_the_logs_part(
    offset: int, last_fetched_epoch: int, end: EpochEnd | None
) -> None:
    decision = decide(target(offset, last_fetched_epoch=last_fetched_epoch))
    if end is None:
        assert isinstance(decision, Read)
    else:
        assert decision == Diverged(Bounds(10, 50, 50, 50), end)


def test_an_epoch_of_the_future_is_out_of_range() -> None:
    assert decide(target(15, last_fetched_epoch=6)) == OUT_OF_RANGE


# Sizes.


@pytest.mark.parametrize(
    ("max_bytes", "room_bytes", "is_first"), list(product((-1, 0, 100), (-5, 0, 50), (True, False)))
)
def test_only_the_first_partition_is_read_without_room(
    max_bytes: int, room_bytes: int, is_first: bool
) -> None:
    most = min(max_bytes, room_bytes)
    decision = decide(target(15, max_bytes=max_bytes), room_bytes=room_bytes, is_first=is_first)
    if is_first or most > 0:
        assert decision == Read(Bounds(10, 50, 50, 50), most, is_first)
    else:
        assert isinstance(decision, NothingToRead)


def test_only_the_first_batch_may_be_larger_than_the_limits() -> None:
    bounds = Bounds(0, 9, 9, 9)
    assert Read(bounds, 100, True).accepts(5000)
    assert Read(bounds, 100, False).accepts(100)
    assert not Read(bounds, 100, False).accepts(101)


@given(
    max_bytes=st.integers(-5, 50),
    min_bytes=st.integers(-5, 50),
    broker_max_bytes=st.integers(0, 50),
)
def test_a_fetch_never_waits_for_more_than_it_may_return(
    max_bytes: int, min_bytes: int, broker_max_bytes: int
) -> None:
    limits = fetch_limits(max_bytes, min_bytes, 500, READ_COMMITTED, broker_max_bytes)
    assert limits.max_bytes == min(max_bytes, broker_max_bytes)
    assert limits.min_bytes <= min_bytes
    assert not must_wait(limits, limits.max_bytes)


@pytest.mark.parametrize(
    ("min_bytes", "max_wait_ms", "size_bytes"), list(product((0, 1, 10), (-1, 0, 500), (0, 1, 10)))
)
def test_a_fetch_waits_for_its_minimum_as_long_as_it_may(
    min_bytes: int, max_wait_ms: int, size_bytes: int
) -> None:
    limits = FetchLimits(100, min_bytes, max_wait_ms, READ_UNCOMMITTED)
    assert must_wait(limits, size_bytes) == (max_wait_ms > 0 and size_bytes < min_bytes)


# Aborted transactions.

SPANS = (AbortedSpan(7, 0, 4, 2), AbortedSpan(8, 2, 9, 10), AbortedSpan(9, 12, 14, 15))


def records(first: int, last: int) -> bytes:
    made = [Record(offset, NOW_MS, None, b"v") for offset in range(first, last + 1)]
    return build_batch(made, base_offset=first)


@pytest.mark.parametrize(
    ("first", "last", "producers"),
    [
        (0, 1, [7]),
        (0, 2, [7, 8]),
        (5, 8, [8]),
        (10, 11, []),
        (10, 12, [9]),
        (0, 20, [7, 8, 9]),
        (15, 20, []),
    ],
)
def test_a_reader_is_told_of_the_aborted_transactions_in_its_records(
    first: int, last: int, producers: list[int]
) -> None:
    found = aborted_in(SPANS, records(first, last), first, 100)
    assert [span.producer_id for span in found] == producers


def test_a_reader_of_damaged_records_is_told_of_all_that_it_might_have_read() -> None:
    found = aborted_in(SPANS, records(0, 1)[:30], 0, 100)
    assert [span.producer_id for span in found] == [7, 8, 9]


@pytest.mark.parametrize("version", range(4, 18))
@pytest.mark.parametrize("compression_type", ["zstd", "producer", "gzip"])
def test_old_readers_get_no_zstd(version: int, compression_type: str) -> None:
    refused = Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    is_refused = version < 10 and compression_type == "zstd"
    assert check_codec(version, compression_type) == (refused if is_refused else None)
