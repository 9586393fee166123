"""Both record kernels: right, identical in results and errors, and safe with any bytes."""

import importlib
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.records.record_values import BASE_OFFSET, BASE_TIMESTAMP, record_lists

from ottla.records import _kernel_py
from ottla.records.batch import (
    BatchFlag,
    BatchHeader,
    TimestampType,
    build_batch,
    crc_matches,
    read_header,
    split_batches,
)
from ottla.records.compression import Codec
from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record, Scan


def _compiled() -> ModuleType | None:
    try:
        return importlib.import_module("ottla.records._kernel")
    except ImportError:
        return None


COMPILED = _compiled()
KERNELS: list[Any] = [
    pytest.param(_kernel_py, id="pure"),
    pytest.param(
        COMPILED,
        id="compiled",
        marks=pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built"),
    ),
]
both_kernels = pytest.mark.parametrize("kernel", KERNELS)
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")

INT64_MAX = 2**63 - 1


def varint(number: int) -> bytes:
    """A zigzag varint, written apart from the kernels."""
    rest = number * 2 if number >= 0 else -number * 2 - 1
    output = bytearray()
    while rest > 127:
        output.append(rest % 128 + 128)
        rest //= 128
    return bytes([*output, rest])


def framed(body: bytes) -> bytes:
    """A record of that body."""
    return varint(len(body)) + body


def outcome(call: Any, *arguments: object) -> object:
    """What a call gave: its result, or its error's type and text."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error), str(error)


def decode(kernel: Any, payload: object, count: int) -> Any:
    return kernel.decode_records(payload, count, BASE_OFFSET, BASE_TIMESTAMP, None)


@both_kernels
@given(records=record_lists())
def test_decoding_gives_back_what_was_encoded(kernel: Any, records: list[Record]) -> None:
    payload = kernel.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)
    decoded = decode(kernel, payload, len(records))
    assert decoded == records
    assert all(type(record) is Record for record in decoded)
    assert [hash(record) for record in decoded] == [hash(tuple(record)) for record in records]


@both_kernels
@given(
    records=record_lists(),
    later_ms=st.integers(-5, 200),
    skipped=st.integers(0, 5),
    append_time_ms=st.none() | st.just(BASE_TIMESTAMP),
)
def test_a_record_is_found_by_its_time_as_among_decoded_ones(
    kernel: Any, records: list[Record], later_ms: int, skipped: int, append_time_ms: int | None
) -> None:
    payload = kernel.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)
    arguments = (payload, len(records), BASE_OFFSET, BASE_TIMESTAMP, append_time_ms)
    wanted_ms, start_offset = BASE_TIMESTAMP + later_ms, BASE_OFFSET + skipped
    expected = [
        (record.offset, record.timestamp)
        for record in kernel.decode_records(*arguments)
        if record.timestamp >= wanted_ms and record.offset >= start_offset
    ]
    found = kernel.find_by_time(*arguments, wanted_ms, start_offset)
    assert found == (expected[0] if expected else None)


@both_kernels
@given(records=record_lists(), first=st.integers(0, 5))
def test_records_in_two_parts_are_those_in_one(
    kernel: Any, records: list[Record], first: int
) -> None:
    payload = memoryview(kernel.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP))
    first = min(first, len(records))
    middle = kernel.records_end(payload, 0, first)
    assert kernel.records_end(payload, middle, len(records) - first) == len(payload)
    parts = (payload[:middle], first), (payload[middle:], len(records) - first)
    assert [record for part in parts for record in decode(kernel, *part)] == records


@both_kernels
def test_the_bytes_are_those_of_the_format(kernel: Any) -> None:
    record = Record(BASE_OFFSET + 2, BASE_TIMESTAMP + 70, b"k", None, (("h", b"xy"), ("", None)))
    body = b"".join(
        (
            b"\x00",
            varint(70),
            varint(2),
            varint(1) + b"k",
            varint(-1),
            varint(2),
            varint(1) + b"h" + varint(2) + b"xy",
            varint(0) + varint(-1),
        )
    )
    assert kernel.encode_records([record], BASE_OFFSET, BASE_TIMESTAMP) == framed(body)


@compiled_needed
@given(records=record_lists())
def test_both_kernels_encode_alike(records: list[Record]) -> None:
    assert COMPILED is not None
    arguments = (records, BASE_OFFSET, BASE_TIMESTAMP)
    assert COMPILED.encode_records(*arguments) == _kernel_py.encode_records(*arguments)
    assert COMPILED.encode_records(tuple(records), *arguments[1:]) == COMPILED.encode_records(
        *arguments
    )


def assert_alike(payload: bytes, count: int) -> None:
    """Both kernels give the same records, scans and errors; errors are of one type."""
    assert COMPILED is not None
    for append_time_ms in (None, 7):
        arguments = (payload, count, BASE_OFFSET, BASE_TIMESTAMP, append_time_ms)
        expected = outcome(_kernel_py.decode_records, *arguments)
        assert outcome(COMPILED.decode_records, *arguments) == expected
        assert isinstance(expected, list) or expected[0] is CorruptRecordsError  # type: ignore[index]
    scan = outcome(_kernel_py.scan_records, payload, count)
    assert outcome(COMPILED.scan_records, payload, count) == scan
    assert isinstance(scan, Scan) == isinstance(expected, list)
    for wanted in ((BASE_TIMESTAMP, 0), (BASE_TIMESTAMP + 50, BASE_OFFSET + 2), (INT64_MAX, 0)):
        asked = (payload, count, BASE_OFFSET, BASE_TIMESTAMP, None, *wanted)
        assert outcome(COMPILED.find_by_time, *asked) == outcome(_kernel_py.find_by_time, *asked)
    for start in (0, 5, 200):
        ends = outcome(_kernel_py.records_end, payload, start, count)
        assert outcome(COMPILED.records_end, payload, start, count) == ends


@compiled_needed
@settings(max_examples=400)
@given(payload=st.binary(max_size=120), count=st.integers(-1, 12))
def test_both_kernels_agree_on_garbage(payload: bytes, count: int) -> None:
    assert_alike(payload, count)


@compiled_needed
@settings(max_examples=400)
@given(data=st.data(), records=record_lists())
def test_both_kernels_agree_on_mutated_records(data: st.DataObject, records: list[Record]) -> None:
    payload = bytearray(_kernel_py.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP))
    if payload:
        for _ in range(data.draw(st.integers(0, 3))):
            position = data.draw(st.integers(0, len(payload) - 1))
            payload[position] = data.draw(
                st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
            )
        del payload[data.draw(st.integers(0, len(payload)) | st.just(len(payload))) :]
    assert_alike(bytes(payload), data.draw(st.just(len(records)) | st.integers(0, 10)))


# The start of a body up to its offset delta, and of one up to its value.
START = b"\x00\x00\x00"
EMPTY = START + b"\x00\x00"
FULL_VARINT = b"\xff\xff\xff\xff\x0f"

MALFORMED = {
    "negative count": (b"", -1, "the number of records is negative"),
    "absurd count": (framed(EMPTY + b"\x00"), 2**31 - 1, "there are more records than bytes"),
    "no bytes": (b"", 1, "there are more records than bytes"),
    "trailing bytes": (framed(EMPTY + b"\x00") + b"\x00", 1, "bytes follow the last record"),
    "trailing bytes without records": (b"\x00", 0, "bytes follow the last record"),
    "negative record length": (b"\x01" + EMPTY + b"\x00", 1, "record 0: a length is negative"),
    "record overruns": (b"\x0e" + EMPTY + b"\x00", 1, "record 0: it overruns the batch"),
    "huge record length": (b"\xfe\xff\xff\xff\x0f" + b"\x00" * 9, 1, "it overruns the batch"),
    "empty record": (b"\x00" * 7, 1, "record 0: a field overruns its record"),
    "record of one byte": (b"\x02" + b"\x00" * 7, 1, "record 0: a varint is truncated"),
    "second record": (framed(EMPTY + b"\x00") + b"\x01" * 7, 2, "record 1: a length is negative"),
    "length varint of six bytes": (b"\x80" * 5 + b"\x00" * 5, 1, "a varint is too long"),
    "length varint of 33 bits": (b"\x80\x80\x80\x80\x10" + b"\x00" * 5, 1, "a varint is too long"),
    "timestamp of eleven bytes": (framed(b"\x00" + b"\x80" * 10 + b"\x00" * 5), 1, "too long"),
    "timestamp of 65 bits": (framed(b"\x00" + b"\x80" * 9 + b"\x02" + b"\x00" * 4), 1, "too long"),
    "negative offset delta": (framed(b"\x00\x00\x01\x00\x00\x00"), 1, "offset delta is negative"),
    "key length -2": (framed(START + b"\x03\x00\x00"), 1, "a length is negative"),
    "key overruns": (framed(START + b"\x06\x00\x00"), 1, "a field overruns its record"),
    "key of 2 GiB": (framed(START + b"\xfe\xff\xff\xff\x0f\x00\x00"), 1, "a field overruns"),
    "value length -2": (framed(START + b"\x00\x03\x00"), 1, "a length is negative"),
    "value overruns": (framed(START + b"\x00\x06\x00\x00"), 1, "a field overruns its record"),
    "value into the next record": (
        framed(START + b"\x00\x04\x00") + framed(EMPTY + b"\x00"),
        2,
        "record 0: a field overruns its record",
    ),
    "negative header count": (framed(EMPTY + b"\x01"), 1, "a length is negative"),
    "absurd header count": (framed(EMPTY + b"\xfe\xff\xff\xff\x0f"), 1, "more headers than bytes"),
    "null header key": (framed(EMPTY + b"\x02\x01\x00"), 1, "a header key is null"),
    "header key overruns": (framed(EMPTY + b"\x02\x04\x00"), 1, "a field overruns its record"),
    "header value overruns": (framed(EMPTY + b"\x02\x00\x02"), 1, "a field overruns its record"),
    "header value length -2": (framed(EMPTY + b"\x02\x00\x03"), 1, "a length is negative"),
    "longer than its fields": (framed(EMPTY + b"\x00\x00"), 1, "not that of its fields"),
    "varint cut by the record": (framed(EMPTY + b"\x80") + b"\x00", 1, "a varint is truncated"),
}


@both_kernels
@pytest.mark.parametrize(("payload", "count", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_records_are_refused_with_a_reason(
    kernel: Any, payload: bytes, count: int, reason: str
) -> None:
    with pytest.raises(CorruptRecordsError, match=reason):
        decode(kernel, payload, count)
    with pytest.raises(CorruptRecordsError, match=reason):
        kernel.scan_records(payload, count)


@compiled_needed
@pytest.mark.parametrize(("payload", "count", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_both_kernels_refuse_with_the_same_words(payload: bytes, count: int, reason: str) -> None:
    assert_alike(payload, count)


@both_kernels
def test_padded_varints_are_accepted_as_kafka_does(kernel: Any) -> None:
    padded = b"\x80\x80\x00"
    payload = framed(b"\x00" + padded * 4 + padded)
    assert decode(kernel, payload, 1) == [Record(BASE_OFFSET, BASE_TIMESTAMP, b"", b"")]


@both_kernels
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_any_buffer_is_decoded_and_released(kernel: Any, wrap: Any) -> None:
    payload = wrap(framed(START + b"\x02k\x01\x00"))
    assert decode(kernel, payload, 1) == [Record(BASE_OFFSET, BASE_TIMESTAMP, b"k", None)]
    assert kernel.scan_records(payload, 1).null_key_count == 0
    if isinstance(payload, bytearray):
        payload.clear()


@both_kernels
def test_an_append_time_replaces_the_timestamps(kernel: Any) -> None:
    payload = kernel.encode_records([Record(0, 5, b"", b""), Record(1, 9, b"", b"")], 0, 5)
    decoded = kernel.decode_records(payload, 2, 0, 5, -1)
    assert [record.timestamp for record in decoded] == [-1, -1]


@both_kernels
@pytest.mark.parametrize(
    ("base_offset", "base_timestamp", "reason"),
    [
        (INT64_MAX, 0, "record 1: its offset is out of range"),
        (0, INT64_MAX, "record 1: its timestamp is out of range"),
    ],
)
def test_offsets_and_timestamps_beyond_64_bits_are_refused(
    kernel: Any, base_offset: int, base_timestamp: int, reason: str
) -> None:
    payload = kernel.encode_records([Record(0, 0, b"", b""), Record(1, 1, b"", b"")], 0, 0)
    with pytest.raises(CorruptRecordsError, match=reason):
        kernel.decode_records(payload, 2, base_offset, base_timestamp, None)


@both_kernels
def test_timestamps_below_64_bits_are_refused(kernel: Any) -> None:
    payload = kernel.encode_records([Record(0, -1, b"", b"")], 0, 0)
    with pytest.raises(CorruptRecordsError, match="timestamp is out of range"):
        kernel.decode_records(payload, 1, 0, -(2**63), None)
    assert kernel.decode_records(payload, 1, 0, 1 - 2**63, None)[0].timestamp == -(2**63)


@both_kernels
@given(records=record_lists())
def test_a_scan_sums_up_what_decoding_shows(kernel: Any, records: list[Record]) -> None:
    payload = kernel.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)
    scan = kernel.scan_records(payload, len(records))
    if not records:
        assert scan == Scan(0, 0, 0, 0, True)
        return
    latest = max(records, key=lambda record: record.timestamp)
    assert scan == Scan(
        min_timestamp_delta=min(record.timestamp for record in records) - BASE_TIMESTAMP,
        max_timestamp_delta=latest.timestamp - BASE_TIMESTAMP,
        offset_delta_of_max_timestamp=latest.offset - BASE_OFFSET,
        null_key_count=sum(record.key is None for record in records),
        offsets_consecutive=[record.offset for record in records]
        == list(range(BASE_OFFSET, BASE_OFFSET + len(records))),
    )


@both_kernels
def test_the_first_of_equal_timestamps_counts_as_the_latest(kernel: Any) -> None:
    times = [5, 9, 9, 7]
    records = [Record(offset, time, None, None) for offset, time in enumerate(times)]
    scan = kernel.scan_records(kernel.encode_records(records, 0, 5), 4)
    assert scan.offset_delta_of_max_timestamp == 1


@both_kernels
def test_header_keys_that_are_not_utf8_survive(kernel: Any) -> None:
    payload = framed(EMPTY + varint(1) + varint(2) + b"\xff\xe9" + varint(-1))
    records = decode(kernel, payload, 1)
    assert kernel.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP) == payload


@both_kernels
@pytest.mark.parametrize(
    ("record", "error"),
    [
        (("too", "short"), TypeError),
        ([0, 0, None, None, ()], TypeError),
        (Record(None, 0, None, None), TypeError),  # type: ignore[arg-type]
        (Record(0, 0.5, None, None), TypeError),  # type: ignore[arg-type]
        (Record(-1, 0, None, None), ValueError),
        (Record(2**31, 0, None, None), ValueError),
        (Record(2**63, 0, None, None), ValueError),
        (Record(0, 2**63, None, None), ValueError),
        (Record(0, -(2**63) - 1, None, None), ValueError),
        (Record(0, 0, "text", None), TypeError),  # type: ignore[arg-type]
        (Record(0, 0, None, bytearray(b"x")), TypeError),  # type: ignore[arg-type]
        (Record(0, 0, None, None, None), TypeError),  # type: ignore[arg-type]
        (Record(0, 0, None, None, ("ab",)), TypeError),  # type: ignore[arg-type]
        (Record(0, 0, None, None, ((b"k", b"v"),)), TypeError),  # type: ignore[arg-type]
        (Record(0, 0, None, None, (("k", "v"),)), TypeError),  # type: ignore[arg-type]
        (Record(0, 0, None, None, (("\ud800", b"v"),)), UnicodeEncodeError),
    ],
)
def test_what_is_no_record_is_not_encoded(kernel: Any, record: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        kernel.encode_records([record], 0, 0)
    if COMPILED is not None:
        assert outcome(COMPILED.encode_records, [record], 0, 0) == outcome(
            _kernel_py.encode_records, [record], 0, 0
        )


@both_kernels
@example(base=-(2**63), other=2**63 - 1)
@example(base=2**63 - 1, other=-(2**63))
@example(base=-1, other=2**63 - 1)
@example(base=0, other=-(2**63))
@given(base=st.integers(-(2**63), INT64_MAX), other=st.integers(-(2**63), INT64_MAX))
def test_distant_numbers_are_encoded_right_or_refused(kernel: Any, base: int, other: int) -> None:
    near = Record(0, other, None, None)
    try:
        payload = kernel.encode_records([near], 0, base)
    except ValueError:
        assert not -(2**63) <= other - base <= INT64_MAX
    else:
        assert kernel.decode_records(payload, 1, 0, base, None) == [near]
    far = Record(other, 0, None, None)
    try:
        payload = kernel.encode_records([far], base, 0)
    except ValueError:
        assert not 0 <= other - base < 2**31
    else:
        assert kernel.decode_records(payload, 1, base, 0, None) == [far]


@both_kernels
def test_numbers_beyond_64_bits_are_refused_as_arguments(kernel: Any) -> None:
    with pytest.raises(OverflowError):
        kernel.encode_records([], 2**63, 0)
    with pytest.raises(OverflowError):
        kernel.decode_records(b"", 0, 0, 2**63, None)
    with pytest.raises(OverflowError):
        kernel.scan_records(b"", 2**63)


@both_kernels
def test_large_records_are_encoded(kernel: Any) -> None:
    records = [
        Record(0, 0, b"k" * 70_000, b"v" * 1_000_000, (("h" * 5000, b"x" * 100_000),)),
        Record(1, 0, None, b"", (("h", b"x"),) * 1000),
    ]
    payload = kernel.encode_records(records, 0, 0)
    assert kernel.decode_records(payload, 2, 0, 0, None) == records


@pytest.mark.parametrize(("pure", "compiled"), [("1", False), ("0", COMPILED is not None)])
def test_the_environment_forces_the_pure_kernel(pure: str, compiled: bool) -> None:
    code = (
        "from ottla.records import kernel; print(kernel.COMPILED, kernel.scan_records.__module__)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OTTLA_PURE": pure, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    module = "ottla.records._kernel" if compiled else "ottla.records._kernel_py"
    assert answer == [str(compiled), module]


# Batches that a log takes as they are.

FREE = (2**31, -(2**63), 2**63 - 1, False)  # no limits


@st.composite
def sent_batches(draw: st.DrawFn) -> bytes:
    """Batches as producers send them, mostly; the checksum is right."""
    base_timestamp = draw(st.sampled_from([BASE_TIMESTAMP, 0, -1]))
    records = [
        Record(index, base_timestamp + draw(st.integers(0, 50)), draw(keys), b"value")
        for index in range(draw(st.integers(1, 4)))
    ]
    producer_id = draw(st.sampled_from([-1, -1, 0, 7]))
    flags = draw(st.sampled_from([*BatchFlag, BatchFlag.NONE, BatchFlag.NONE]))
    batch = build_batch(
        records,
        codec=draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP])),
        producer_id=producer_id,
        producer_epoch=draw(st.sampled_from([-1, 0, 3])),
        base_sequence=draw(st.sampled_from([-1, 0, 2**31 - 1])),
        flags=flags,
        timestamp_type=draw(st.sampled_from(TimestampType)),
    )
    return batch


keys = st.none() | st.just(b"key")


@compiled_needed
@given(
    batch=sent_batches(),
    place=st.none() | st.tuples(st.integers(0, 200), st.integers(0, 255)),
    renews_crc=st.booleans(),
    limits=st.tuples(
        st.sampled_from([2**31, 100, 61]),
        st.sampled_from([-(2**63), 0, BASE_TIMESTAMP]),
        st.sampled_from([2**63 - 1, BASE_TIMESTAMP + 10]),
        st.booleans(),
    ),
)
@settings(max_examples=600)
def test_both_kernels_find_the_same_plain_batches(
    batch: bytes, place: tuple[int, int] | None, renews_crc: bool, limits: Any
) -> None:
    data = bytearray(batch)
    if place is not None:
        data[place[0] % len(data)] = place[1]
    if renews_crc:
        data[17:21] = crc32c(memoryview(bytes(data))[21:]).to_bytes(4, "big")
    assert COMPILED is not None
    for view in (memoryview(data), memoryview(data)[:-1]):
        ours = COMPILED.plain_header(BatchHeader, view, *limits)
        assert ours == _kernel_py.plain_header(BatchHeader, view, *limits)
        assert ours is None or (type(ours) is BatchHeader and ours == read_header(view, 0))


@both_kernels
def test_a_producers_batch_is_plain(kernel: Any) -> None:
    batch = build_batch(
        [Record(0, BASE_TIMESTAMP, None, b"v"), Record(1, BASE_TIMESTAMP, b"k", b"v")]
    )
    assert kernel.plain_header(BatchHeader, batch, *FREE) == read_header(batch, 0)
    assert kernel.plain_header(BatchHeader, batch, len(batch), *FREE[1:]) is not None
    assert kernel.plain_header(BatchHeader, batch, len(batch) - 1, *FREE[1:]) is None
    assert kernel.plain_header(BatchHeader, batch, *FREE[:3], True) is None
    for earliest_ms, latest_ms, is_plain in (
        (BASE_TIMESTAMP, BASE_TIMESTAMP, True),
        (BASE_TIMESTAMP + 1, BASE_TIMESTAMP + 9, False),
        (0, BASE_TIMESTAMP - 1, False),
    ):
        found = kernel.plain_header(BatchHeader, batch, FREE[0], earliest_ms, latest_ms, False)
        assert (found is not None) == is_plain


@both_kernels
def test_joined_batches_follow_each_other(kernel: Any) -> None:
    batches = [build_batch([Record(index, 5, b"k", b"v") for index in range(n)]) for n in (1, 3, 2)]
    headers = [read_header(batch, 0) for batch in batches]
    data, extents = kernel.join_batches(tuple, batches, headers, 2**40, 9)
    assert extents == [
        (2**40, 2**40, 5, len(batches[0])),
        (2**40 + 1, 2**40 + 3, 5, len(batches[1])),
        (2**40 + 4, 2**40 + 5, 5, len(batches[2])),
    ]
    found = split_batches(data)
    assert [header.base_offset for _, header in found] == [2**40, 2**40 + 1, 2**40 + 4]
    assert {header.partition_leader_epoch for _, header in found} == {9}
    assert all(crc_matches(data, position, header) for position, header in found)


@both_kernels
def test_only_whole_headers_are_joined(kernel: Any) -> None:
    batch = build_batch([Record(0, 5, b"k", b"v")])
    header = read_header(batch, 0)
    with pytest.raises(ValueError, match="without a header"):
        kernel.join_batches(tuple, [batch[:60]], [header], 0, 0)
    with pytest.raises(ValueError, match="for each batch"):
        kernel.join_batches(tuple, [batch], [], 0, 0)
