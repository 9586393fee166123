"""Records become Arrow's buffers, by both kernels alike, and corruption is refused as by decoding."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.arrow_kernels import COMPILED, as_bytes, both_kernels, compiled_needed, rows_of
from tests.records.client_kernels import outcome
from tests.records.record_values import BASE_OFFSET, BASE_TIMESTAMP, record_lists

from ottla.records import _arrow_kernel_py, _kernel_py
from ottla.records.columns import HEADERS, KEY, TIMESTAMP, VALUE
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import INT64_MAX, INT64_MIN, Record

ALL = KEY | VALUE | TIMESTAMP | HEADERS
bounds = st.integers(BASE_OFFSET - 2, BASE_OFFSET + 12) | st.sampled_from([0, INT64_MAX])


def encoded(records: list[Record]) -> bytes:
    return _kernel_py.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)


def append(builder: Any, payload: bytes, count: int, **options: int) -> Any:
    return builder.append(payload, count, BASE_OFFSET, BASE_TIMESTAMP, None, **options)


def expected_row(record: Record, units_per_ms: int = 1) -> tuple[object, ...]:
    timestamp: int | None = record.timestamp * units_per_ms
    if abs(record.timestamp * units_per_ms) > INT64_MAX:
        timestamp = None
    # Java reads header keys that are no UTF-8 with replacements.
    headers = [
        (key.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode(), value)
        for key, value in record.headers
    ]
    return record.offset, timestamp, record.key, record.value, headers or None


@both_kernels
@given(batches=st.lists(record_lists(), max_size=4), start_offset=bounds, end_offset=bounds)
def test_columns_are_what_decoding_gives_within_the_bounds(
    kernel: Any, batches: list[list[Record]], start_offset: int, end_offset: int
) -> None:
    builder = kernel.ColumnsBuilder(ALL, 1000)
    wanted: list[tuple[object, ...]] = []
    for records in batches:
        within = [record for record in records if start_offset <= record.offset < end_offset]
        options = {"start_offset": start_offset, "end_offset": end_offset}
        assert append(builder, encoded(records), len(records), **options) == len(within)
        wanted += [expected_row(record, 1000) for record in within]
        assert builder.row_count == len(wanted)
    size_bytes = builder.size_bytes
    built = builder.finish()
    assert rows_of(built) == wanted
    columns = (built.key, built.value, built.header_key, built.header_value)
    assert size_bytes == max(len(bytes(column[3])) for column in columns)
    assert builder.row_count == builder.size_bytes == 0


@both_kernels
@given(first=record_lists(), second=record_lists())
def test_a_finished_builder_begins_again(
    kernel: Any, first: list[Record], second: list[Record]
) -> None:
    builder = kernel.ColumnsBuilder(ALL)
    append(builder, encoded(first), len(first))
    built = builder.finish()
    append(builder, encoded(second), len(second))
    assert rows_of(builder.finish()) == [expected_row(record) for record in second]
    assert rows_of(built) == [expected_row(record) for record in first]
    assert rows_of(builder.finish()) == []


@st.composite
def perhaps_damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    """The bytes of a batch and the number of records in it, or something like it."""
    records = draw(record_lists())
    payload = bytearray(encoded(records))
    for _ in range(draw(st.integers(0, 2))):
        if payload:
            payload[draw(st.integers(0, len(payload) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.sampled_from([0, 0, 0, 1, 5]))
    return bytes(payload)[: len(payload) - cut], len(records) + draw(st.sampled_from([0, 0, 0, 1]))


@both_kernels
@given(batches=st.lists(perhaps_damaged() | st.tuples(st.binary(max_size=40), st.integers(-1, 5))))
def test_damage_costs_its_batch_only_and_is_refused_as_by_decoding(
    kernel: Any, batches: list[tuple[bytes, int]]
) -> None:
    builder = kernel.ColumnsBuilder(ALL)
    wanted: list[tuple[object, ...]] = []
    for payload, count in batches:
        arguments = (payload, count, BASE_OFFSET, BASE_TIMESTAMP, None)
        expected: Any = outcome(_kernel_py.decode_records, *arguments)
        found = outcome(append, builder, payload, count)
        if isinstance(expected, tuple):
            assert found == expected
            assert expected[0] is CorruptRecordsError
        else:
            assert found == len(expected)
            wanted += [expected_row(record) for record in expected]
    assert rows_of(builder.finish()) == wanted


@compiled_needed
@given(
    batches=st.lists(perhaps_damaged(), max_size=6),
    wanted=st.integers(0, ALL),
    limit_bytes=st.integers(0, 2000),
    units_per_ms=st.sampled_from([1, 1000, 10**18]),
)
def test_both_kernels_fill_the_same_bytes(
    batches: list[tuple[bytes, int]], wanted: int, limit_bytes: int, units_per_ms: int
) -> None:
    found = []
    for kernel in (COMPILED, _arrow_kernel_py):
        builder = kernel.ColumnsBuilder(wanted, units_per_ms, limit_bytes)  # type: ignore[union-attr]
        outcomes = [outcome(append, builder, payload, count) for payload, count in batches]
        found.append((outcomes, builder.size_bytes, as_bytes(builder.finish())))
    assert found[0] == found[1]


@both_kernels
def test_null_and_empty_are_not_the_same(kernel: Any) -> None:
    records = [
        Record(0, 0, None, b""),
        Record(1, 0, b"", None),
        Record(2, 0, None, None, (("", None), ("", b""))),
        Record(3, 0, b"", b""),
    ]
    builder = kernel.ColumnsBuilder(ALL)
    builder.append(_kernel_py.encode_records(records, 0, 0), 4, 0, 0, None)
    assert [row[2:] for row in rows_of(builder.finish())] == [
        (None, b"", None),
        (b"", None, None),
        (None, None, [(b"", None), (b"", b"")]),
        (b"", b"", None),
    ]


@both_kernels
def test_an_append_time_replaces_the_timestamps(kernel: Any) -> None:
    builder = kernel.ColumnsBuilder(ALL, 1000)
    records = [Record(0, 5, b"", b""), Record(1, 9, b"", b"")]
    builder.append(_kernel_py.encode_records(records, 0, 5), 2, 0, 5, 77)
    assert [row[1] for row in rows_of(builder.finish())] == [77_000, 77_000]


@both_kernels
@pytest.mark.parametrize("timestamp", [INT64_MIN, -(2**62), 2**60, INT64_MAX])
def test_a_time_that_the_unit_cannot_express_is_null(kernel: Any, timestamp: int) -> None:
    builder = kernel.ColumnsBuilder(TIMESTAMP, 1000)
    for append_time_ms in (-1, timestamp, 1):
        payload = _kernel_py.encode_records([Record(0, 0, None, None)], 0, 0)
        builder.append(payload, 1, 0, 0, append_time_ms)
    built = builder.finish()
    assert (built.timestamp_null_count, bytes(built.timestamp_validity)) == (1, b"\x05")


@both_kernels
def test_header_keys_that_are_no_utf8_are_replaced_as_in_java(kernel: Any) -> None:
    builder = kernel.ColumnsBuilder(ALL)
    headers = (("\udcff\udcfe", b"\xff"), ("é", b""))
    payload = _kernel_py.encode_records([Record(0, 0, None, None, headers)], 0, 0)
    builder.append(payload, 1, 0, 0, None)
    assert rows_of(builder.finish())[0][4] == [
        ("\ufffd\ufffd".encode(), b"\xff"),
        ("é".encode(), b""),
    ]


@both_kernels
def test_a_column_does_not_pass_its_limit(kernel: Any) -> None:
    payload = _kernel_py.encode_records([Record(0, 0, None, b"v" * 100)], 0, 0)
    builder = kernel.ColumnsBuilder(ALL, 1, len(payload) + 150)
    assert builder.append(payload, 1, 0, 0, None) == 1
    assert builder.append(payload, 1, 0, 0, None) == 1
    with pytest.raises(OverflowError, match="limit"):
        builder.append(payload, 1, 0, 0, None)
    # What is replaced gets larger than what was there.
    replaced = _kernel_py.encode_records([Record(0, 0, b"", b"", (("\udcff" * 100, b""),))], 0, 0)
    with pytest.raises(OverflowError, match="limit"):
        kernel.ColumnsBuilder(ALL, 1, 200).append(replaced, 1, 0, 0, None)
    assert builder.row_count == 2
    assert len(bytes(builder.finish().value[3])) == 200


@both_kernels
def test_headers_of_no_size_do_not_pass_the_limit_of_their_number(kernel: Any) -> None:
    payload = _kernel_py.encode_records([Record(0, 0, None, None, (("", None),) * 8)], 0, 0)
    builder = kernel.ColumnsBuilder(ALL, 1, 60)
    for _ in range((60 - len(payload)) // 8 + 1):
        assert builder.append(payload, 1, 0, 0, None) == 1
    assert builder.size_bytes == 0
    with pytest.raises(OverflowError, match="limit"):
        builder.append(payload, 1, 0, 0, None)


@both_kernels
def test_impossible_arguments_are_refused(kernel: Any) -> None:
    for arguments in [(ALL, 0), (ALL, -5), (ALL, 1, -1), (ALL, 1, 2**31)]:
        with pytest.raises(ValueError, match=r"units|2 GiB"):
            kernel.ColumnsBuilder(*arguments)
    builder = kernel.ColumnsBuilder(ALL)
    with pytest.raises(OverflowError):
        builder.append(b"", 0, 2**63, 0, None)
    with pytest.raises(TypeError):
        builder.append("text", 0, 0, 0, None)


@both_kernels
def test_buffers_outlive_the_builder(kernel: Any) -> None:
    builder = kernel.ColumnsBuilder(ALL)
    payload = _kernel_py.encode_records([Record(0, 0, b"k", b"v" * 5000)], 0, 0)
    builder.append(payload, 1, 0, 0, None)
    view = memoryview(builder.finish().value[3])
    del builder
    kernel.ColumnsBuilder(ALL).append(payload, 1, 0, 0, None)
    assert view == b"v" * 5000
    assert view.readonly
