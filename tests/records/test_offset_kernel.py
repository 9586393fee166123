"""The records of committed offsets: both kernels, beside records that are encoded one by one."""

from __future__ import annotations

import importlib
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.group import records
from ottla.core.group.events import OffsetsCommitted
from ottla.core.group.offset_table import CommittedOffset
from ottla.records import _offset_kernel_py
from ottla.records.kernel import decode_records, encode_records
from ottla.records.record import Record


def _compiled() -> Any:
    try:
        return importlib.import_module("ottla.records._offset_kernel")
    except ImportError:
        return None


COMPILED = _compiled()
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")
both_kernels = pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(_offset_kernel_py, id="pure"),
        pytest.param(COMPILED, id="compiled", marks=compiled_needed),
    ],
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-1, 2**31 - 1),
        st.text(max_size=300),
    ),
    max_size=5,
)


def event_of(
    rows: list[tuple[int, int, int, str]], topic_id: UUID | None, expires_at_ms: int
) -> OffsetsCommitted:
    return OffsetsCommitted(
        "g",
        "orders",
        [partition for partition, _, _, _ in rows],
        [offset for _, offset, _, _ in rows],
        [leader_epoch for _, _, leader_epoch, _ in rows],
        [metadata for _, _, _, metadata in rows],
        1234,
        -1 if topic_id is not None else expires_at_ms,
        topic_id,
    )


EVENTS = st.builds(event_of, ROWS, st.none() | st.uuids(), st.sampled_from([-1, 5678]))


def one_by_one(event: OffsetsCommitted, first: int, end: int, first_delta: int) -> bytes:
    rows = event.each()[first:end]
    return encode_records(
        [Record(number, 0, *records.encode(row)) for number, row in enumerate(rows, first_delta)],
        0,
        0,
    )


@both_kernels
@given(EVENTS, st.data())
def test_offsets_are_encoded_as_if_one_by_one(
    kernel: Any, event: OffsetsCommitted, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(event.partitions)))
    end = data.draw(st.integers(first, len(event.partitions)))
    first_delta = data.draw(st.integers(0, 100_000))
    expected = one_by_one(event, first, end, first_delta)
    key_start = records._key_start(event.group_id, event.topic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "encode_offset_records", kernel.encode_offsets)
        encoded = records._encode_offsets(event, key_start, first, end, first_delta)
    assert encoded == expected
    decoded = decode_records(encoded, end - first, 0, 0, None)
    if event.expires_at_ms == -1:  # the format with an expiry has no leader epoch
        found = [records.decode(one.key, one.value) for one in decoded]
        assert found == event.each()[first:end]


@given(EVENTS, st.integers(0, 2000), st.integers(0, 100))
def test_offsets_are_encoded_in_as_many_sections_as_it_takes(
    event: OffsetsCommitted, room_bytes: int, first_delta: int
) -> None:
    sections, following, delta = [], 0 if event.partitions else None, first_delta
    while following is not None:
        section, count, following = records.encode_offsets(event, following, room_bytes, delta)
        assert count == 1 or len(section) <= room_bytes
        sections.append(section)
        delta += count
    expected = one_by_one(event, 0, len(event.partitions), first_delta)
    assert b"".join(sections) == expected


@both_kernels
@given(EVENTS, st.integers(0, 2**40))
def test_offsets_are_put_into_a_table(kernel: Any, event: OffsetsCommitted, position: int) -> None:
    table: dict[tuple[str, int], CommittedOffset] = {("orders", -5): "stays"}  # type: ignore[dict-item]
    kernel.put_offsets(table, CommittedOffset, *event, position)
    expected: dict[tuple[str, int], object] = {("orders", -5): "stays"}
    for number, offset in enumerate(event.each(), position + 1):
        expected[offset.topic, offset.partition] = CommittedOffset(*offset, number)
    assert table == expected
    assert list(table) == list(expected)
    assert all(type(found) is CommittedOffset for found in list(table.values())[1:])


@both_kernels
def test_a_table_is_filled_from_columns_of_one_length_with_tuples(kernel: Any) -> None:
    columns = [1, 2], [3, 4], [5, 6], ["", "x"]
    with pytest.raises(ValueError, match="different lengths"):
        kernel.put_offsets({}, CommittedOffset, "g", "t", [1], *columns[1:], 1, -1, None, 0)
    with pytest.raises(TypeError, match="tuple"):
        kernel.put_offsets({}, list, "g", "t", *columns, 1, -1, None, 0)


COLUMNS = ([1, 2], [3, 4], [5, 6], ["", "x"])


@both_kernels
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({0: [1]}, ValueError),
        ({0: [1, 2**31]}, struct.error),
        ({1: [1, 2**63]}, struct.error),
        ({2: [1, -(2**31) - 1]}, struct.error),
        ({3: ["", "x" * 32768]}, struct.error),
        ({5: b"short"}, ValueError),
        ({6: -1}, ValueError),
        ({7: 3}, ValueError),
    ],
)
def test_what_no_record_can_hold_is_refused(
    kernel: Any, changed: dict[int, Any], error: type[Exception]
) -> None:
    arguments: list[Any] = [*COLUMNS, 1234, None, 0, 2, 0]
    assert kernel.encode_offsets(b"key", *arguments)
    for place, value in changed.items():
        arguments[place] = value
    with pytest.raises(error):
        kernel.encode_offsets(b"key", *arguments)


@both_kernels
def test_long_metadata_fits_behind_a_topic_id(kernel: Any) -> None:
    event = OffsetsCommitted("g", "t", [0], [1], [-1], ["é" * 40_000], 1, topic_id=UUID(int=7))
    data = kernel.encode_offsets(b"", *event[2:7], UUID(int=7).bytes, 0, 1, 0)
    assert len(data) > 80_000
