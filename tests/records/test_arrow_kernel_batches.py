"""Whole runs of batches become columns in one call, by both kernels alike, up to the first one that is not plain."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import arrow_kernels, client_kernels
from tests.records.arrow_kernels import both_kernels, compiled_needed, rows_of
from tests.records.client_kernels import outcome
from tests.records.record_values import record_lists

from ottla.records import _arrow_kernel_py, _client_kernel_py
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.columns import HEADERS, KEY, TIMESTAMP, VALUE
from ottla.records.compression import Codec
from ottla.records.record import INT64_MAX, Record, TimestampType

ALL = KEY | VALUE | TIMESTAMP | HEADERS


def batch(start: int, count: int = 3, **options: Any) -> bytes:
    records = [Record(n, 1000 + n, b"k%d" % n, b"v%d" % n) for n in range(start, start + count)]
    return build_batch(records, base_offset=start, leader_epoch=4, **options)


def damaged(whole: bytes, at: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]


kinds = st.sampled_from(
    [
        {},
        {},
        {},
        {"codec": Codec.GZIP},
        {"timestamp_type": TimestampType.LOG_APPEND_TIME, "append_time_ms": 7},
        {"flags": BatchFlag.CONTROL},
        {"flags": BatchFlag.TRANSACTIONAL, "producer_id": 5},
        {"flags": BatchFlag.DELETE_HORIZON},
    ]
)


def take(kernel: Any, buf: bytes, *arguments: Any, **limit: int) -> tuple[object, list[Any]]:
    """What `append_batches` gives, and the rows."""
    builder = kernel.ColumnsBuilder(ALL, 1000, **limit)
    result = outcome(builder.append_batches, buf, *arguments)
    return result, rows_of(builder.finish())


@both_kernels
def test_plain_batches_are_appended_in_one_call(kernel: Any) -> None:
    buf = batch(10) + batch(13) + batch(20, 1)
    result, rows = take(kernel, buf, 0, 11, INT64_MAX, True, True)
    assert result == (len(buf), 21, 4, 0, 6)
    assert [(row[0], row[1], row[2], row[3]) for row in rows] == [
        (n, (1000 + n) * 1000, b"k%d" % n, b"v%d" % n) for n in (11, 12, 13, 14, 15, 20)
    ]


@both_kernels
@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(batch(3, codec=Codec.GZIP), id="compressed"),
        pytest.param(batch(3, flags=BatchFlag.CONTROL), id="control"),
        pytest.param(batch(3, flags=BatchFlag.TRANSACTIONAL, producer_id=1), id="transactional"),
        pytest.param(
            batch(3, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=1),
            id="another timestamp type",
        ),
        pytest.param(damaged(batch(3), 70), id="wrong checksum"),
        pytest.param(damaged(batch(3), 16), id="another magic"),
        pytest.param(damaged(batch(3), 8), id="negative length"),
        pytest.param(batch(98), id="up to the end offset"),
    ],
)
def test_it_stops_before_everything_else(kernel: Any, stop: bytes) -> None:
    first = batch(0)
    result, rows = take(kernel, first + stop + batch(6), 0, 0, 100, True, False)
    assert result == (len(first), 3, 4, 0, 3)
    assert [row[0] for row in rows] == [0, 1, 2]
    assert rows == take(kernel, first, 0, 0, 100, True, False)[1]


@both_kernels
@pytest.mark.parametrize("buf", [b"", b"x", bytes(61), batch(0)[:-1], damaged(batch(0), 80)])
def test_without_a_plain_batch_nothing_moves(kernel: Any, buf: bytes) -> None:
    assert take(kernel, buf, 0, 5, INT64_MAX, True, True) == ((0, 5, -1, -1, 0), [])


@both_kernels
def test_a_batch_with_corrupt_records_leaves_no_row_of_its_own(kernel: Any) -> None:
    # Without checks of the checksum only the records themselves can tell.
    first, bad = batch(0), batch(3)
    for at in range(61, len(bad)):
        result, rows = take(kernel, first + damaged(bad, at), 0, 0, INT64_MAX, False, True)
        assert isinstance(result, tuple)
        assert len(rows) == result[4]
        assert result[0] == len(first) or result[4] >= 3
        assert rows[:3] == take(kernel, first, 0, 0, INT64_MAX, True, True)[1]


@both_kernels
def test_a_column_that_is_full_takes_no_further_batch(kernel: Any) -> None:
    one = batch(0)
    section_bytes = len(one) - 61
    result, rows = take(
        kernel, one + batch(3), 0, 0, INT64_MAX, True, True, limit_bytes=section_bytes + 1
    )
    assert result == (len(one), 3, 4, 0, 3)
    assert len(rows) == 3


@both_kernels
def test_a_position_outside_of_the_buffer_is_refused(kernel: Any) -> None:
    for position in (-1, 4):
        with pytest.raises(ValueError, match="no such position"):
            kernel.ColumnsBuilder(ALL).append_batches(b"abc", position, 0, INT64_MAX, True, True)


@compiled_needed
@given(
    parts=st.lists(st.tuples(record_lists(), kinds), max_size=6),
    start_offset=st.integers(0, 40),
    end_offset=st.integers(-5, 40) | st.just(INT64_MAX),
    flags=st.tuples(st.booleans(), st.booleans()),
    harm=st.none() | st.tuples(st.integers(0), st.integers(1, 255)),
    cut=st.integers(0, 80),
)
def test_both_kernels_give_the_same(
    parts: list[tuple[list[Record], dict[str, Any]]],
    start_offset: int,
    end_offset: int,
    flags: tuple[bool, bool],
    harm: tuple[int, int] | None,
    cut: int,
) -> None:
    buf, offset = bytearray(), 0
    for records, options in parts:
        numbered = [record._replace(offset=offset + n) for n, record in enumerate(records)]
        last = offset + max(len(records), 1)
        buf += build_batch(numbered, base_offset=offset, last_offset=last, **options)
        offset = last + 1
    if harm is not None and buf:
        buf[harm[0] % len(buf)] ^= harm[1]
    arguments = (bytes(buf[: max(0, len(buf) - cut)]), 0, start_offset, end_offset, *flags)
    pure = take(_arrow_kernel_py, *arguments)
    assert take(arrow_kernels.COMPILED, *arguments) == pure
    for each in (arguments[0], bytes(buf)):
        compiled = client_kernels.COMPILED
        assert compiled is not None
        assert compiled.whole_batches(each) == _client_kernel_py.whole_batches(each)


@both_kernels
@given(valid=st.lists(st.booleans(), max_size=70), failed=st.integers(0, 5))
def test_nulls_stay_where_they_were_also_after_a_corrupt_batch(
    kernel: Any, valid: list[bool], failed: int
) -> None:
    builder = kernel.ColumnsBuilder(ALL)
    for start in range(0, len(valid), 7):
        records = [
            Record(n, 0, b"k" if is_valid else None, None if is_valid else b"v")
            for n, is_valid in enumerate(valid[start : start + 7], start)
        ]
        whole = build_batch(records, base_offset=start)
        if failed == start // 7:
            # All rows of the other kind, and then garbage.
            others = [record._replace(key=record.value, value=record.key) for record in records]
            broken = build_batch(others, base_offset=start)[:-1] + b"\xff"
            assert builder.append_batches(broken, 0, start, INT64_MAX, False, True)[4] == 0
        assert builder.append_batches(whole, 0, start, INT64_MAX, True, True)[4] == len(records)
    rows = rows_of(builder.finish())
    assert [row[2] is not None for row in rows] == valid
    assert [row[3] is None for row in rows] == valid


@compiled_needed
def test_memory_is_used_again_only_when_its_columns_are_gone() -> None:
    kernel = arrow_kernels.COMPILED
    assert kernel is not None
    value = bytes(range(256)) * 4
    buf = build_batch([Record(n, n, None, value) for n in range(500)])
    builder = kernel.ColumnsBuilder(ALL)
    kernel.free_spare_memory()

    def build(expected_bytes: int = 0) -> Any:
        builder.expected_bytes = expected_bytes
        builder.append_batches(buf, 0, 0, INT64_MAX, True, True)
        return builder.finish()

    kept = build()
    before = bytes(kept.value[3])
    for expected_bytes in (0, 10_000_000, 600_000):
        other = build(expected_bytes)
        assert bytes(other.value[3]) == before
        del other
    assert bytes(kept.value[3]) == before == value * 500
    spare_bytes = kernel.free_spare_memory()
    assert 500_000 < spare_bytes < 2_000_000, "expected bytes that did not come cost no memory"
    del kept
    assert kernel.free_spare_memory() >= 512_000
    assert kernel.free_spare_memory() == 0


@compiled_needed
def test_spare_memory_has_a_limit() -> None:
    kernel = client_kernels.COMPILED
    assert kernel is not None
    kernel.free_spare_memory()
    for sizes in ([4_000_000] * 30, [70_000] * 100, [30_000_000], [1000] * 10):
        frames = [kernel.FrameMemory(size) for size in sizes]
        assert [len(memoryview(frame)) for frame in frames] == sizes
        del frames
    assert kernel.free_spare_memory() <= 32 * 1024 * 1024
    frame = memoryview(kernel.FrameMemory(100_000))
    part = frame[10:20]
    part[:] = b"0123456789"
    del frame
    again = memoryview(kernel.FrameMemory(100_000))
    again[:] = bytes(100_000)
    assert bytes(part) == b"0123456789", "a view keeps the memory of its frame"


@both_kernels
def test_numbers_are_repeated(kernel: Any) -> None:
    expected = struct.pack("=5i", 7, 7, 7, -1, -1)
    assert bytes(kernel.repeated_numbers([(7, 3), (-1, 2), (9, 0)])) == expected
    assert len(bytes(kernel.repeated_numbers([(1, 40_000)]))) == 160_000
    with pytest.raises(ValueError, match="repeated that often"):
        kernel.repeated_numbers([(1, -1)])
