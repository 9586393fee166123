"""Rows of Arrow columns become records sections, by both kernels alike, each in its partition."""

import struct
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.arrow_kernels import (
    COMPILED,
    blobs_of,
    both_kernels,
    compiled_needed,
    header_lists_of,
    numbers_of,
    validity_of,
)
from tests.records.client_kernels import outcome
from tests.records.record_values import BASE_TIMESTAMP, headers, nullable_bytes, timestamps

from ottla.records import _arrow_kernel_py, _kernel_py
from ottla.records._client_kernel_py import partition_of_key
from ottla.records.columns import Blobs, HeaderLists, Numbers, Rows, Section
from ottla.records.record import INT64_MAX, INT64_MIN, Record

DEFAULT = BASE_TIMESTAMP + 5
NO_LIMIT = 2**31
PARTITION_COUNTS = (3, 1)


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Any = None
    timestamp: int | None = None
    partition: int | None = None
    topic: int = 0


@st.composite
def rows(draw: st.DrawFn) -> Row:
    topic = draw(st.integers(0, 1))
    partition = draw(st.none() | st.integers(0, PARTITION_COUNTS[topic] - 1))
    return Row(
        draw(nullable_bytes),
        draw(nullable_bytes),
        draw(st.none() | headers),
        draw(st.none() | timestamps),
        partition,
        topic,
    )


def columns(wanted: list[Row], first: int = 0, width: int = 4) -> Rows:
    return Rows(
        len(wanted),
        blobs_of([row.key for row in wanted], first, width),
        blobs_of([row.value for row in wanted], first, width),
        header_lists_of([row.headers for row in wanted], first, width),
        numbers_of([row.timestamp for row in wanted], first),
        1,
        numbers_of([row.partition for row in wanted], first, width),
        numbers_of([row.topic for row in wanted], first, 4),
    )


def copied(section: Section) -> Section:
    return section._replace(data=bytes(section.data))


def encoder(kernel: Any, *arguments: int, counts: tuple[int, ...] = PARTITION_COUNTS) -> Any:
    made = kernel.SectionsEncoder(*arguments)
    assert [made.add_topic(count) for count in counts] == list(range(len(counts)))
    return made


def encode(kernel: Any, parts: list[Rows], *arguments: int) -> list[Section]:
    made = encoder(kernel, *arguments)
    sections: list[Section] = []
    for part in parts:
        sections += made.append(part, DEFAULT, copied)
    assert made.row_count == sum(part.row_count for part in parts)
    sections += made.finish(copied)
    return sections


def records_of(section: Section) -> list[Record]:
    data = bytes(section.data)
    return _kernel_py.decode_records(data, section.record_count, 0, section.base_timestamp, None)


def expected_records(wanted: list[Row]) -> list[tuple[object, ...]]:
    """What follows the offset in a Record."""
    return [
        (DEFAULT if row.timestamp is None else row.timestamp, row.key, row.value, row.headers or ())
        for row in wanted
    ]


@both_kernels
@given(
    wanted=st.lists(rows(), max_size=12),
    cut=st.integers(0, 12),
    first=st.integers(0, 9),
    width=st.sampled_from([4, 8]),
    limit_bytes=st.integers(0, 1500) | st.just(NO_LIMIT),
    sticky_bytes=st.sampled_from([0, 1, 300, NO_LIMIT]),
)
def test_every_row_becomes_one_record_in_its_partition_in_order(
    kernel: Any,
    wanted: list[Row],
    cut: int,
    first: int,
    width: int,
    limit_bytes: int,
    sticky_bytes: int,
) -> None:
    parts = [columns(wanted[:cut], first, width), columns(wanted[cut:], 0)]
    sections = encode(kernel, parts, limit_bytes, sticky_bytes)
    found: dict[tuple[int, int], list[tuple[object, ...]]] = {}
    for section in sections:
        records = records_of(section)
        assert [record.offset for record in records] == list(range(section.record_count))
        assert section.base_timestamp == records[0].timestamp
        assert section.max_timestamp == max(record.timestamp for record in records)
        assert len(section.data) <= limit_bytes or len(records) == 1
        place = section.topic, section.partition
        found.setdefault(place, []).extend(record[1:] for record in records)
    for topic, count in enumerate(PARTITION_COUNTS):
        keyless = [
            row
            for row in wanted
            if row.topic == topic and row.key is None and row.partition is None
        ]
        for partition in range(count):
            got = found.get((topic, partition), [])
            certain = [
                row
                for row in wanted
                if row.topic == topic and row not in keyless and place_of(row, count) == partition
            ]
            assert [one for one in got if one not in expected_records(keyless)] == [
                one for one in expected_records(certain) if one not in expected_records(keyless)
            ]
    total = sorted(map(repr, (one for records in found.values() for one in records)))
    assert total == sorted(map(repr, expected_records(wanted)))


def place_of(row: Row, partition_count: int) -> int:
    if row.partition is not None:
        return row.partition
    assert row.key is not None
    return partition_of_key(row.key, partition_count)


@both_kernels
@given(wanted=st.lists(rows(), min_size=1, max_size=8))
def test_a_section_is_what_encode_records_makes(kernel: Any, wanted: list[Row]) -> None:
    wanted = [row._replace(partition=0, topic=0) for row in wanted]
    (section,) = encode(kernel, [columns(wanted)], NO_LIMIT, NO_LIMIT)
    records = [Record(index, *one) for index, one in enumerate(expected_records(wanted))]  # type: ignore[arg-type]
    assert section.data == _kernel_py.encode_records(records, 0, records[0].timestamp)


@both_kernels
@given(wanted=st.lists(rows(), max_size=12), limit_bytes=st.integers(0, 1500))
def test_a_section_ends_only_where_the_next_record_does_not_fit(
    kernel: Any, wanted: list[Row], limit_bytes: int
) -> None:
    wanted = [row._replace(partition=0, topic=1) for row in wanted]
    sections = encode(kernel, [columns(wanted)], limit_bytes, NO_LIMIT)
    for section, following in pairwise(sections):
        records = records_of(section) + records_of(following)[:1]
        numbered = [record._replace(offset=index) for index, record in enumerate(records)]
        whole = _kernel_py.encode_records(numbered, 0, section.base_timestamp)
        assert len(whole) > limit_bytes


@compiled_needed
@given(
    parts=st.lists(st.lists(rows(), max_size=6), max_size=3),
    limit_bytes=st.integers(0, 1500),
    sticky_bytes=st.integers(0, 1500),
    first_partition=st.integers(0, 5),
)
def test_both_kernels_make_the_same_sections(
    parts: list[list[Row]], limit_bytes: int, sticky_bytes: int, first_partition: int
) -> None:
    arguments = ([columns(part) for part in parts], limit_bytes, sticky_bytes, first_partition)
    assert encode(COMPILED, *arguments) == encode(_arrow_kernel_py, *arguments)


def partitions_of(kernel: Any, count: int, sticky_bytes: int, first: int) -> list[int]:
    """Where rows without keys go; each of them has 10 bytes."""
    made = encoder(kernel, NO_LIMIT, sticky_bytes, first)
    for index in range(count):
        made.append(Rows(1, value=blobs_of([b"%03d" % index])), 0, copied)
    at: dict[int, int] = {}
    for section in made.finish(copied):
        for record in records_of(section):
            at[int(record.value or b"")] = section.partition
    return [at[index] for index in range(count)]


@both_kernels
def test_rows_without_keys_fill_one_partition_after_another(kernel: Any) -> None:
    assert partitions_of(kernel, 7, 20, 1) == [1, 1, 2, 2, 0, 0, 1]
    assert partitions_of(kernel, 5, NO_LIMIT, 2) == [2] * 5


@both_kernels
def test_rows_without_keys_go_round_robin_if_nothing_has_to_be_filled(kernel: Any) -> None:
    assert partitions_of(kernel, 5, 1, 0) == [0, 1, 2, 0, 1]


@both_kernels
def test_rows_with_a_place_of_their_own_do_not_fill_a_partition(kernel: Any) -> None:
    made = encoder(kernel, NO_LIMIT, 1)
    for row in [Row(b"", b"0"), Row(None, b"1", partition=0), Row(None, b"2"), Row(b"k", b"")]:
        made.append(columns([row]), 0, copied)
    made.append(columns([Row(None, b"3")]), 0, copied)
    at = {
        record.value: section.partition
        for section in made.finish(copied)
        for record in records_of(section)
        if record.key is None
    }
    assert at == {b"1": 0, b"2": 0, b"3": 1}


@both_kernels
@pytest.mark.parametrize(
    ("units_per_ms", "number", "expected"),
    [
        (1000, 1999, 1),
        (1000, -1, -1),
        (1000, -1000, -1),
        (1000, -1001, -2),
        (1_000_000, 1_700_000_000_123_999_999, 1_700_000_000_123),
        (-1000, 5, 5000),
        (-1000, -5, -5000),
        (1, INT64_MIN, INT64_MIN),
        (1000, INT64_MIN, INT64_MIN // 1000),
        (-1000, INT64_MAX // 1000, INT64_MAX // 1000 * 1000),
    ],
)
def test_timestamps_become_milliseconds_rounded_down(
    kernel: Any, units_per_ms: int, number: int, expected: int
) -> None:
    rows = Rows(1, timestamps=numbers_of([number]), units_per_ms=units_per_ms)
    (section,) = encode(kernel, [rows], NO_LIMIT, NO_LIMIT)
    assert section.base_timestamp == section.max_timestamp == expected


@both_kernels
@pytest.mark.parametrize("number", [INT64_MIN, INT64_MAX, INT64_MAX // 1000 + 1])
def test_timestamps_that_milliseconds_cannot_express_are_refused(kernel: Any, number: int) -> None:
    rows = Rows(2, timestamps=numbers_of([0, number]), units_per_ms=-1000)
    with pytest.raises(ValueError, match="row 1: its timestamp is out of range"):
        encode(kernel, [rows], NO_LIMIT, NO_LIMIT)


@both_kernels
def test_timestamps_too_far_apart_for_a_batch_get_two(kernel: Any) -> None:
    rows = Rows(3, timestamps=numbers_of([INT64_MIN, 0, 5]))
    first, second = encode(kernel, [rows], NO_LIMIT, NO_LIMIT)
    assert [section.record_count for section in (first, second)] == [1, 2]
    assert (second.base_timestamp, second.max_timestamp) == (0, 5)


@both_kernels
@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (columns([Row(b"", b""), Row(b"", b"", partition=3)]), "row 1: there is no partition 3"),
        (columns([Row(b"", b"", partition=-1)]), "row 0: there is no partition -1, only 3"),
        (columns([Row(b"", b"", partition=1, topic=1)]), "there is no partition 1, only 1"),
        (columns([Row(b"", b"", topic=2)]), "row 0: there is no topic 2"),
        (columns([Row(b"", b"", topic=-1)]), "row 0: there is no topic -1"),
    ],
)
def test_rows_without_a_place_are_refused(kernel: Any, rows: Rows, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        encode(kernel, [rows], NO_LIMIT, NO_LIMIT)


@both_kernels
def test_headers_that_are_null_are_refused_and_null_values_are_not(kernel: Any) -> None:
    lists = header_lists_of([(), (("a", None), ("b", b""))])
    (section,) = encode(kernel, [Rows(2, headers=lists)], NO_LIMIT, NO_LIMIT)
    assert [record.headers for record in records_of(section)] == [(), (("a", None), ("b", b""))]
    for broken in [
        lists._replace(keys=blobs_of([b"a", None])),
        lists._replace(keys=None),
        lists._replace(entries_validity=validity_of([True, False])),
        lists._replace(entries_validity=validity_of([True, False], 3), entries_first=3),
    ]:
        with pytest.raises(ValueError, match="row 1: a header or its key is null"):
            encode(kernel, [Rows(2, headers=broken)], NO_LIMIT, NO_LIMIT)


@both_kernels
def test_columns_that_are_missing_are_null(kernel: Any) -> None:
    (section,) = encode(kernel, [Rows(2)], NO_LIMIT, NO_LIMIT)
    assert [record[1:] for record in records_of(section)] == [(DEFAULT, None, None, ())] * 2


@both_kernels
def test_nothing_comes_of_no_rows(kernel: Any) -> None:
    # Arrow lets buffers of empty arrays be missing.
    empty = Blobs(None, b"", b"")
    lists = HeaderLists(None, b"", 0, 4, 0, None, 0, empty, empty)
    rows = Rows(0, empty, empty, lists, Numbers(None, b""), 1, Numbers(None, b""))
    assert encode(kernel, [rows], NO_LIMIT, NO_LIMIT) == []


@both_kernels
def test_a_value_larger_than_the_limit_gets_a_batch_of_its_own(kernel: Any) -> None:
    huge = b"v" * 3_000_000
    rows = columns([Row(None, b"1"), Row(None, huge), Row(None, b"2")])
    sections = encode(kernel, [rows], 1000, NO_LIMIT)
    assert [[record.value for record in records_of(section)] for section in sections] == [
        [b"1"],
        [huge],
        [b"2"],
    ]


@both_kernels
def test_sections_that_somebody_keeps_are_not_overwritten(kernel: Any) -> None:
    made = encoder(kernel, 20, NO_LIMIT)
    rows = columns([Row(None, b"%05d" % index) for index in range(100)])
    kept = made.append(rows, 0, lambda section: (section, memoryview(section.data)))
    kept += made.finish(lambda section: (section, memoryview(section.data)))
    values = [
        record.value
        for section, view in kept
        for record in records_of(section._replace(data=bytes(view)))
    ]
    assert values == [b"%05d" % index for index in range(100)]


@both_kernels
def test_an_error_of_the_caller_reaches_the_caller(kernel: Any) -> None:
    made = encoder(kernel, 10, NO_LIMIT)

    def refuse(section: Section) -> None:
        raise KeyError(section.partition)

    with pytest.raises(KeyError):
        made.append(columns([Row(None, b"12345"), Row(None, b"67890")]), 0, refuse)


@compiled_needed
def test_the_compiled_encoder_is_not_entered_twice() -> None:
    made = encoder(COMPILED, 10, NO_LIMIT)

    def enter(section: Section) -> None:
        made.append(Rows(1), 0, enter)

    with pytest.raises(RuntimeError, match="appends to the encoder"):
        made.append(columns([Row(None, b"12345"), Row(None, b"67890")]), 0, enter)


# Columns that break Arrow's rules

buffers = st.binary(max_size=40)
small = st.integers(-1, 9)
widths = st.sampled_from([4, 8, 4, 8, 0, 3])
offset_buffers = buffers | st.lists(small, max_size=9).map(
    lambda ends: struct.pack(f"={len(ends)}i", *ends)
)
any_blobs = st.builds(Blobs, st.none() | buffers, offset_buffers, buffers, small, widths)
any_numbers = st.builds(Numbers, st.none() | buffers, offset_buffers, small, widths)
any_lists = st.builds(
    HeaderLists,
    *(st.none() | buffers, offset_buffers, small, widths, small, st.none() | buffers, small),
    *(st.none() | any_blobs, st.none() | any_blobs),
)
any_rows = st.builds(
    Rows,
    small,
    st.none() | any_blobs,
    st.none() | any_blobs,
    st.none() | any_lists,
    st.none() | any_numbers,
    st.sampled_from([1, 1000, -1000, 0]),
    st.none() | any_numbers,
    st.none() | any_numbers,
)


@compiled_needed
@given(garbage=any_rows)
def test_garbage_is_refused_by_both_kernels_alike(garbage: Rows) -> None:
    compiled = outcome(encode, COMPILED, [garbage], 1000, 1000)
    assert compiled == outcome(encode, _arrow_kernel_py, [garbage], 1000, 1000)
    if isinstance(compiled, tuple):
        assert compiled[0] is ValueError


@both_kernels
def test_impossible_arguments_are_refused(kernel: Any) -> None:
    with pytest.raises(ValueError, match="first partition"):
        kernel.SectionsEncoder(1, 1, -1)
    made = kernel.SectionsEncoder(1, 1)
    for count in (0, -1, 2**31):
        with pytest.raises(ValueError, match="there have to be partitions"):
            made.add_topic(count)
    for rows in (Rows(-1), Rows(2**60), Rows(1, Blobs(None, b"", b"", 2**60))):
        with pytest.raises(ValueError, match="number of rows"):
            made.append(rows, 0, copied)
