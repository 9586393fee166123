"""The records of a fetch as columns are those that one by one would have been."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from tests.client.state.test_fetched import batch, fetched, marker, transactional

from ottla.client.state.consumer.fetched_partition import FetchedPartition
from ottla.errors import AbortableError
from ottla.records.arrow import RecordColumns
from ottla.records.batch import build_batch
from ottla.records.compression import Codec
from ottla.records.control import MarkerType
from ottla.records.record import Record

FAR = 1 << 62


def offsets(answer: FetchedPartition, end_offset: int = FAR) -> list[int]:
    columns = RecordColumns()
    count = answer.take_columns(columns, end_offset)
    found: list[int] = [at for part in columns.finish() for at in part["offset"].to_pylist()]
    assert len(found) == count
    return found


def mixed(at: int = 0, **settings: bool) -> FetchedPartition:
    """Plain, committed and aborted records; offsets 12 and 13 are missing."""
    parts = (
        batch(0, 3),
        transactional(3, 2, 7),
        transactional(5, 2, 8),
        marker(7, 7, MarkerType.ABORT),
        transactional(8, 2, 7),
        marker(10, 8, MarkerType.COMMIT),
        build_batch([Record(11, 0, None, b"x")], base_offset=11, last_offset=13),
        marker(14, 7, MarkerType.COMMIT),
        batch(17, 2),
    )
    return fetched(*parts, at=at, aborted=[(7, 3)], **settings)


@given(st.lists(st.integers(0, 25)), st.booleans(), st.integers(0, 18))
def test_columns_between_any_ends_are_the_records_between_them(
    ends: list[int], read_committed: bool, at: int
) -> None:
    one_by_one = mixed(at, read_committed=read_committed)
    expected = [record.offset for record in one_by_one.take(1000)]
    answer = mixed(at, read_committed=read_committed)
    found: list[int] = []
    for end in sorted(ends):
        part = offsets(answer, end)
        assert all(offset < end for offset in part)
        # Nothing before the end is left, and the position is not behind it.
        assert found + part == [offset for offset in expected if offset < end]
        assert answer.next_offset == max(at, min(end, one_by_one.next_offset))
        found += part
    found += offsets(answer)
    assert found == expected
    assert answer.next_offset == one_by_one.next_offset
    assert answer.is_consumed
    assert answer.record_count == one_by_one.record_count == len(expected)


def test_columns_go_on_where_records_stopped() -> None:
    answer = fetched(batch(0, 5))
    assert [record.offset for record in answer.take(2)] == [0, 1]
    assert offsets(answer, 4) == [2, 3]
    assert [record.offset for record in answer.take(9)] == [4]


def test_what_cannot_be_read_raises_when_it_is_the_first_in_line() -> None:
    bad = bytearray(batch(2, 2))
    bad[-1] ^= 1
    answer = fetched(batch(0, 2), bytes(bad))
    assert offsets(answer) == [0, 1], "what is right goes first"
    for _ in range(2):
        with pytest.raises(AbortableError, match="checksum of the batch at offset 2"):
            offsets(answer)
    assert not answer.is_consumed
    broken = fetched(batch(0, 2), b"\xff" * 80)
    assert offsets(broken) == [0, 1]
    with pytest.raises(AbortableError):
        offsets(broken)


def test_damage_behind_the_end_is_not_this_readers_business() -> None:
    bad = bytearray(batch(2, 2))
    bad[-1] ^= 1
    answer = fetched(batch(0, 2), bytes(bad))
    assert offsets(answer, 2) == [0, 1]
    assert offsets(answer, 2) == []


def test_transactions_of_which_none_was_aborted_are_read_like_plain_batches() -> None:
    parts = (
        transactional(0, 2, 7),
        marker(2, 7, MarkerType.COMMIT),
        transactional(3, 2, 8),
        batch(5, 2, codec=Codec.ZSTD),
        batch(7, 1),
    )
    for read_committed in (False, True):
        answer = fetched(*parts, read_committed=read_committed)
        assert offsets(answer) == [0, 1, 3, 4, 5, 6, 7]
        assert (answer.next_offset, answer.last_epoch, answer.is_consumed) == (8, 4, True)


def test_checksums_are_not_checked_without_check_crcs() -> None:
    bad = bytearray(batch(2, 2))
    bad[17] ^= 1
    answer = fetched(batch(0, 2), bytes(bad), check_crcs=False)
    assert offsets(answer) == [0, 1, 2, 3]


def test_the_last_batch_may_be_cut_off_and_is_fetched_again() -> None:
    answer = fetched(batch(0, 2), batch(2, 2)[:-1])
    assert offsets(answer) == [0, 1]
    assert answer.is_consumed
    assert answer.end_offset == 2


def test_columns_that_are_used_again_have_only_new_rows() -> None:
    columns = RecordColumns()
    for start in (0, 10, 20):
        answer = fetched(batch(start, 3), batch(start + 3, 2, codec=Codec.GZIP), at=start)
        columns.expect(answer.size_bytes)
        answer.take_columns(columns, FAR)
        (part,) = columns.finish()
        assert part["offset"].to_pylist() == list(range(start, start + 5))
        assert part["topic"].to_pylist() == [answer.partition.topic] * 5
        assert part["partition"].to_pylist() == [answer.partition.partition] * 5
        assert part["timestampType"].to_pylist() == [0] * 5
    assert columns.finish() == []
