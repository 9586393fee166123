"""Both of the client's record kernels: right, and identical in results and errors."""

import gc
import importlib
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.record_values import (
    BASE_OFFSET,
    BASE_TIMESTAMP,
    headers,
    nullable_bytes,
    record_lists,
    timestamps,
)

from ottla.records import _client_kernel_py, _kernel_py
from ottla.records.batch import (
    BatchFlag,
    build_batch,
    build_from,
    crc_matches,
    read_batch,
    read_header,
    with_producer,
)
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record

NO_LIMIT = 2**31


def _compiled() -> ModuleType | None:
    try:
        return importlib.import_module("ottla.records._client_kernel")
    except ImportError:
        return None


COMPILED = _compiled()
both_kernels = pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(_client_kernel_py, id="pure"),
        pytest.param(
            COMPILED,
            id="compiled",
            marks=pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built"),
        ),
    ],
)
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")


class Row(NamedTuple):
    """As ConsumerRecord, which is of a higher layer."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: object
    value: object
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int | None
    serialized_key_size: int
    serialized_value_size: int


def size_of(field: bytes | None) -> int:
    return -1 if field is None else len(field)


def row(record: Record) -> Row:
    return Row(
        "orders",
        3,
        record.offset,
        record.timestamp,
        0,
        record.key,
        record.value,
        record.headers,
        7,
        size_of(record.key),
        size_of(record.value),
    )


def reader(kernel: Any, payload: object, count: int, **options: object) -> Any:
    return kernel.RecordsReader(
        Row, payload, count, BASE_OFFSET, BASE_TIMESTAMP, None, "orders", 3, 7, **options
    )


def outcome(call: Any, *arguments: object, **options: object) -> object:
    """What a call gave: its result, or its error's type and text."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error), str(error)


# Building

appended = st.lists(st.tuples(timestamps, nullable_bytes, nullable_bytes, headers), max_size=8)


@both_kernels
@given(records=appended)
def test_records_appended_one_by_one_are_those_encoded_together(
    kernel: Any, records: list[Any]
) -> None:
    builder = kernel.RecordsBuilder(NO_LIMIT)
    whole = [Record(index, *fields) for index, fields in enumerate(records)]
    base_timestamp = records[0][0] if records else -1
    for index, fields in enumerate(records):
        size_bytes = builder.append(*fields)
        expected = _kernel_py.encode_records(whole[: index + 1], 0, base_timestamp)
        assert builder.section() == expected
        assert size_bytes == builder.size_bytes == len(expected)
    assert builder.record_count == len(records)
    assert builder.base_timestamp == base_timestamp
    assert builder.max_timestamp == max((fields[0] for fields in records), default=-1)


@both_kernels
@given(records=appended, limit_bytes=st.integers(0, 1000))
def test_a_record_that_would_pass_the_limit_is_not_taken(
    kernel: Any, records: list[Any], limit_bytes: int
) -> None:
    builder = kernel.RecordsBuilder(limit_bytes)
    for fields in records:
        before = (builder.record_count, builder.max_timestamp, builder.section())
        if builder.append(*fields) < 0:
            after = (builder.record_count, builder.max_timestamp, builder.section())
            assert after == before
            free = kernel.RecordsBuilder(NO_LIMIT)
            for earlier in records[: builder.record_count]:
                free.append(*earlier)
            assert free.append(*fields) > limit_bytes
            return
        assert builder.size_bytes <= limit_bytes or builder.record_count == 1
        assert builder.is_full == (builder.size_bytes >= limit_bytes)


@both_kernels
def test_the_first_record_is_taken_whatever_its_size(kernel: Any) -> None:
    builder = kernel.RecordsBuilder(0)
    assert builder.append(5, None, b"x" * 100_000) > 100_000
    assert builder.is_full
    assert builder.append(5, None, b"") == -1
    assert builder.record_count == 1


@both_kernels
@given(
    pairs=st.lists(st.tuples(nullable_bytes, nullable_bytes), max_size=20),
    with_keys=st.booleans(),
    as_tuples=st.booleans(),
    header=headers,
    limit_bytes=st.integers(0, 3000),
)
def test_many_at_once_are_as_one_after_another(
    kernel: Any,
    pairs: list[Any],
    with_keys: bool,
    as_tuples: bool,
    header: Any,
    limit_bytes: int,
) -> None:
    sequence: Any = tuple if as_tuples else list
    keys = sequence(key for key, _ in pairs) if with_keys else None
    values = sequence(value for _, value in pairs)
    start = 0
    while start < len(pairs):
        singly = kernel.RecordsBuilder(limit_bytes)
        together = kernel.RecordsBuilder(limit_bytes)
        singly.append(BASE_TIMESTAMP, b"before", b"")
        together.append(BASE_TIMESTAMP, b"before", b"")
        taken = together.extend(BASE_TIMESTAMP + 1, values, keys, header, start)
        for index in range(start, start + taken):
            key = keys[index] if keys is not None else None
            assert singly.append(BASE_TIMESTAMP + 1, key, values[index], header) > 0
        if start + taken < len(pairs):
            key = keys[start + taken] if keys is not None else None
            assert singly.append(BASE_TIMESTAMP + 1, key, values[start + taken], header) == -1
        assert together.section() == singly.section()
        assert together.record_count == singly.record_count == taken + 1
        assert together.max_timestamp == singly.max_timestamp
        start += taken + 1


@both_kernels
def test_nothing_is_added_if_one_of_many_is_refused(kernel: Any) -> None:
    builder = kernel.RecordsBuilder(NO_LIMIT)
    for values in ([b"1", b"2", "3"], [b"1"] * 10_000 + [3]):
        with pytest.raises(TypeError, match=f"record {len(values) - 1}: value has to be bytes"):
            builder.extend(5, values)
        assert (builder.record_count, builder.size_bytes, builder.max_timestamp) == (0, 0, -1)
    builder.append(4, b"k", b"v")
    section = builder.section()
    with pytest.raises(TypeError, match="record 2: key has to be bytes"):
        builder.extend(5, [b"1", b"2"], [b"", 1])
    assert (builder.section(), builder.record_count, builder.max_timestamp) == (section, 1, 4)
    assert builder.base_timestamp == 4


REFUSED: list[Any] = [
    (("5", None, None), TypeError),
    ((None, None, None), TypeError),
    ((5.0, None, None), TypeError),
    ((2**63, None, None), ValueError),
    ((-(2**63) - 1, None, None), ValueError),
    ((5, "key", None), TypeError),
    ((5, bytearray(b"key"), None), TypeError),
    ((5, None, "value"), TypeError),
    ((5, None, memoryview(b"value")), TypeError),
    ((5, None, None, {"a": b""}), TypeError),
    ((5, None, None, [["a", b""]]), TypeError),
    ((5, None, None, [("a", b"", b"")]), TypeError),
    ((5, None, None, [(b"a", b"")]), TypeError),
    ((5, None, None, [("a", "b")]), TypeError),
    ((5, None, None, None), TypeError),
]


@both_kernels
@pytest.mark.parametrize(("fields", "error"), REFUSED)
def test_what_is_no_record_is_not_appended(
    kernel: Any, fields: Any, error: type[Exception]
) -> None:
    builder = kernel.RecordsBuilder(NO_LIMIT)
    with pytest.raises(error, match="record 0: "):
        builder.append(*fields)
    assert (builder.record_count, builder.size_bytes, builder.section()) == (0, 0, b"")
    assert builder.append(5, b"", b"") == 7
    expected = outcome(_client_kernel_py.RecordsBuilder(NO_LIMIT).append, *fields)
    assert outcome(kernel.RecordsBuilder(NO_LIMIT).append, *fields) == expected


@both_kernels
def test_timestamps_too_far_apart_for_64_bits_are_refused(kernel: Any) -> None:
    builder = kernel.RecordsBuilder(NO_LIMIT)
    builder.append(-(2**62), None, None)
    builder.append(2**62 - 1, None, None)
    with pytest.raises(ValueError, match="record 2: its timestamp is too far"):
        builder.append(2**62, None, None)
    assert builder.record_count == 2


@both_kernels
def test_many_with_wrong_arguments_are_refused(kernel: Any) -> None:
    builder = kernel.RecordsBuilder(NO_LIMIT)
    for arguments, error in [
        ((5, iter([b""])), TypeError),
        ((5, b"values"), TypeError),
        ((5, [b""], {b""}), TypeError),
        ((5, [b"", b""], [b""]), ValueError),
        ((5, [b""], None, (), -1), ValueError),
        ((5, [b""], None, "headers"), TypeError),
        (("5", [b""]), TypeError),
    ]:
        with pytest.raises(error):
            builder.extend(*arguments)
        expected = outcome(_client_kernel_py.RecordsBuilder(NO_LIMIT).extend, *arguments)
        assert outcome(builder.extend, *arguments) == expected
    assert builder.extend(5, [b""], None, (), 1) == builder.extend(5, []) == 0


# Batches of built records


@given(
    records=appended.filter(bool),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4]),
    flags=st.sampled_from([BatchFlag.NONE, BatchFlag.TRANSACTIONAL]),
)
def test_a_batch_from_a_builder_is_that_of_the_records(
    records: list[Any], codec: Codec, flags: BatchFlag
) -> None:
    builder = _client_kernel_py.RecordsBuilder(NO_LIMIT)
    for fields in records:
        builder.append(*fields)
    stamps = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 40}
    expected = build_batch(
        [Record(index, *fields) for index, fields in enumerate(records)],
        codec=codec,
        flags=flags,
        producer_id=9,
        producer_epoch=2,
        base_sequence=40,
    )
    batch = build_from(builder, codec=codec, flags=flags, **stamps)
    assert batch == expected
    again = with_producer(batch, producer_id=9, producer_epoch=3, base_sequence=0)
    header = read_header(again, 0)
    assert crc_matches(again, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 0)
    assert read_batch(again, 0) == read_batch(batch, 0)
    assert with_producer(again, **stamps) == batch == expected


def test_a_batch_needs_a_record_and_a_stamp_needs_a_whole_batch() -> None:
    builder = _client_kernel_py.RecordsBuilder(NO_LIMIT)
    with pytest.raises(ValueError, match="needs a record"):
        build_from(builder)
    builder.append(5, None, b"v")
    batch = build_from(builder)
    for wrong in (batch[:-1], batch + b"x"):
        with pytest.raises(CorruptRecordsError):
            with_producer(wrong, producer_id=1, producer_epoch=0, base_sequence=0)


# Reading


@both_kernels
@given(records=record_lists(), slices=st.lists(st.integers(1, 4), min_size=9, max_size=9))
def test_slices_are_together_what_decoding_gives(
    kernel: Any, records: list[Record], slices: list[int]
) -> None:
    payload = _kernel_py.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)
    source = reader(kernel, payload, len(records))
    read: list[Row] = []
    for max_records in slices:
        some = source.read(max_records)
        assert len(some) == min(max_records, len(records) - len(read))
        read += some
        assert source.done == (len(read) == len(records))
    assert read == [row(record) for record in records]
    assert all(type(record) is Row for record in read)
    assert source.done
    assert source.read(5) == []
    assert source.peek() is None


@both_kernels
@given(records=record_lists(), data=st.data())
def test_reading_starts_at_the_wanted_offset(
    kernel: Any, records: list[Record], data: st.DataObject
) -> None:
    last = records[-1].offset if records else BASE_OFFSET
    start_offset = data.draw(st.integers(BASE_OFFSET - 1, last + 2))
    payload = _kernel_py.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)
    wanted = [row(record) for record in records if record.offset >= start_offset]
    source = reader(kernel, payload, len(records), start_offset=start_offset)
    assert source.peek() == (wanted[0] if wanted else None)
    assert source.read(1) == wanted[:1]
    assert source.read(100) == wanted[1:]
    assert source.done


@both_kernels
def test_an_append_time_replaces_the_timestamps(kernel: Any) -> None:
    payload = _kernel_py.encode_records([Record(0, 5, b"", b""), Record(1, 9, b"", b"")], 0, 5)
    source = kernel.RecordsReader(Row, payload, 2, 0, 5, 77, "t", 0, None)
    assert [(r.timestamp, r.timestamp_type, r.leader_epoch) for r in source.read(9)] == [
        (77, 1, None),
        (77, 1, None),
    ]


def read_all(kernel: Any, payload: bytes, count: int, max_records: int) -> object:
    """All records before the first error, and the error."""
    read: list[Row] = []
    try:
        source = reader(kernel, payload, count)
        while not source.done:
            read += source.read(max_records)
    except Exception as error:
        return read, type(error), str(error)
    return read, None


def check_like_decoding(kernel: Any, payload: bytes, count: int, max_records: int) -> None:
    """What decode_records refuses is refused with its words, after the records before it."""
    arguments = (payload, count, BASE_OFFSET, BASE_TIMESTAMP, None)
    expected = outcome(_kernel_py.decode_records, *arguments)
    found: Any = read_all(kernel, payload, count, max_records)
    assert found == read_all(_client_kernel_py, payload, count, 1)
    if isinstance(expected, tuple):
        assert found[1:] == expected
        assert expected[0] is CorruptRecordsError
    else:
        assert found == ([row(record) for record in expected], None)  # type: ignore[attr-defined]


@both_kernels
@given(payload=st.binary(max_size=60), count=st.integers(-1, 9), max_records=st.integers(1, 9))
def test_garbage_is_refused_as_by_decoding(
    kernel: Any, payload: bytes, count: int, max_records: int
) -> None:
    check_like_decoding(kernel, payload, count, max_records)


@both_kernels
@given(data=st.data(), records=record_lists(), max_records=st.integers(1, 9))
def test_damaged_records_are_refused_as_by_decoding(
    kernel: Any, data: st.DataObject, records: list[Record], max_records: int
) -> None:
    payload = bytearray(_kernel_py.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP))
    for _ in range(data.draw(st.integers(1, 3))):
        if payload:
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    check_like_decoding(kernel, bytes(payload), len(records), max_records)
    check_like_decoding(kernel, bytes(payload) + b"\x00", len(records), max_records)
    check_like_decoding(kernel, bytes(payload)[:-1], len(records), max_records)


@both_kernels
def test_a_corrupt_record_is_not_passed(kernel: Any) -> None:
    good = _kernel_py.encode_records([Record(0, 0, b"", b"1"), Record(1, 0, b"", b"2")], 0, 0)
    source = kernel.RecordsReader(Row, good + b"\xff" * 9, 3, 0, 0, None, "t", 0, None)
    assert [record.value for record in source.read(10)] == [b"1", b"2"]
    for _ in range(3):
        assert not source.done
        with pytest.raises(CorruptRecordsError, match="record 2: "):
            source.read(10)
        with pytest.raises(CorruptRecordsError, match="record 2: "):
            source.peek()


def upper(topic: str, data: bytes) -> str:
    assert topic == "orders"
    return data.decode("ascii").upper()


@both_kernels
def test_keys_and_values_are_deserialized_unless_null(kernel: Any) -> None:
    records = [Record(BASE_OFFSET, BASE_TIMESTAMP, b"k", b"v")]
    records.append(Record(BASE_OFFSET + 1, BASE_TIMESTAMP, None, None))
    payload = _kernel_py.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)
    both = reader(kernel, payload, 2, key_of=upper, value_of=upper).read(2)
    assert [(r.key, r.value) for r in both] == [("K", "V"), (None, None)]
    assert both[0].serialized_key_size == both[0].serialized_value_size == 1
    assert both[1].serialized_key_size == both[1].serialized_value_size == -1
    one = reader(kernel, payload, 2, value_of=upper).read(1)
    assert (one[0].key, one[0].value) == (b"k", "V")


@both_kernels
def test_a_record_that_cannot_be_deserialized_is_not_passed(kernel: Any) -> None:
    records = [
        Record(BASE_OFFSET + index, BASE_TIMESTAMP, None, value)
        for index, value in enumerate([b"a", b"\xff", b"c"])
    ]
    payload = _kernel_py.encode_records(records, BASE_OFFSET, BASE_TIMESTAMP)
    source = reader(kernel, payload, 3, value_of=upper)
    assert [record.value for record in source.read(3)] == ["A"]
    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            source.read(3)
        assert source.peek() == row(records[1])
    past = reader(kernel, payload, 3, value_of=upper, start_offset=BASE_OFFSET + 2)
    assert [record.value for record in past.read(3)] == ["C"]


@both_kernels
def test_records_in_a_cycle_are_collected(kernel: Any) -> None:
    payload = _kernel_py.encode_records([Record(0, 0, None, b"")], 0, 0)

    class Node(list[object]):
        alive = 0

        def __init__(self) -> None:
            Node.alive += 1

        def __del__(self) -> None:
            Node.alive -= 1

    source = kernel.RecordsReader(
        Row, payload, 1, 0, 0, None, "t", 0, None, value_of=lambda _topic, _data: Node()
    )
    record = source.read(1)[0]
    record.value.append(record)
    assert Node.alive == 1
    del record
    gc.collect()
    assert Node.alive == 0


@both_kernels
def test_numbers_beyond_64_bits_are_refused_as_arguments(kernel: Any) -> None:
    good: list[Any] = [Row, b"", 0, 0, 0, None, "t", 0, None, 0]
    assert kernel.RecordsReader(*good).done
    for index in (2, 3, 4, 5, 9):
        wrong = list(good)
        wrong[index] = 2**63
        with pytest.raises(OverflowError):
            kernel.RecordsReader(*wrong)


@both_kernels
def test_the_payload_is_released_with_the_reader(kernel: Any) -> None:
    payload = bytearray(_kernel_py.encode_records([Record(0, 0, None, b"v")], 0, 0))
    source = kernel.RecordsReader(Row, memoryview(payload), 1, 0, 0, None, "t", 0, None)
    assert len(source.read(1)) == 1
    del source
    payload += b"not exported any more"


# Keys


@compiled_needed
@given(key=st.binary(max_size=300), partition_count=st.integers(1, 2**31 - 1))
def test_both_kernels_hash_alike(key: bytes, partition_count: int) -> None:
    assert COMPILED is not None
    hashed = _client_kernel_py.murmur2(key)
    assert COMPILED.murmur2(key) == hashed
    assert -(2**31) <= hashed < 2**31
    partition = (hashed & 0x7FFFFFFF) % partition_count
    for kernel in (COMPILED, _client_kernel_py):
        assert kernel.partition_of_key(key, partition_count) == partition
        assert kernel.partitions_of_keys([key, None], partition_count) == [partition, -1]


@both_kernels
def test_what_is_no_key_has_no_partition(kernel: Any) -> None:
    for wrong in ("key", None, bytearray(b"key"), 5):
        with pytest.raises(TypeError, match="has to be bytes"):
            kernel.murmur2(wrong)
        with pytest.raises(TypeError, match="has to be bytes"):
            kernel.partition_of_key(wrong, 3)
    for count in (0, -1):
        with pytest.raises(ValueError, match="there have to be partitions"):
            kernel.partition_of_key(b"", count)
        with pytest.raises(ValueError, match="there have to be partitions"):
            kernel.partitions_of_keys([], count)
