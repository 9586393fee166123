"""Records are read a few at a time, by both kernels alike, and corruption is refused as by decoding."""

import gc
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.client_kernels import both_kernels, outcome, size_of
from tests.records.record_values import BASE_OFFSET, BASE_TIMESTAMP, record_lists

from ottla.records import _client_kernel_py, _kernel_py
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record, TimestampType


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


@both_kernels
@pytest.mark.parametrize("append_time_ms", [None, 77])
def test_the_type_of_a_timestamp_is_an_enum(kernel: Any, append_time_ms: int | None) -> None:
    payload = _kernel_py.encode_records([Record(0, 5, b"", b"")], 0, 5)
    source = kernel.RecordsReader(Row, payload, 1, 0, 5, append_time_ms, "t", 0, None)
    kind = TimestampType.CREATE_TIME if append_time_ms is None else TimestampType.LOG_APPEND_TIME
    assert source.read(1)[0].timestamp_type is kind


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


def upper(topic: str, headers: object, data: bytes) -> str:
    assert (topic, headers) == ("orders", ())
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
def test_deserializers_see_the_headers(kernel: Any) -> None:
    headers = (("a", b"1"), ("b", None))
    record = Record(BASE_OFFSET, BASE_TIMESTAMP, b"k", b"v", headers)
    payload = _kernel_py.encode_records([record], BASE_OFFSET, BASE_TIMESTAMP)
    seen: list[object] = []

    def note(*arguments: object) -> int:
        seen.append(arguments)
        return len(seen)

    (read,) = reader(kernel, payload, 1, key_of=note, value_of=note).read(1)
    assert seen == [("orders", headers, b"k"), ("orders", headers, b"v")]
    assert (read.key, read.value, read.headers) == (1, 2, headers)


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
        Row, payload, 1, 0, 0, None, "t", 0, None, value_of=lambda _topic, _headers, _data: Node()
    )
    record = source.read(1)[0]
    record.value.append(record)
    assert Node.alive == 1
    del record
    gc.collect()
    assert Node.alive == 0


class Roomy(tuple[Any, ...]):
    """Its objects have attributes besides the items."""


@both_kernels
@pytest.mark.parametrize("wrong", [Roomy, list, dict])
def test_records_are_named_tuples(kernel: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match="has to be a named tuple"):
        kernel.RecordsReader(wrong, b"", 0, 0, 0, None, "t", 0, None)


@both_kernels
def test_records_can_be_hashed_and_compared(kernel: Any) -> None:
    payload = _kernel_py.encode_records([Record(0, 5, b"k", b"v")] * 1, 0, 5)
    made = (kernel.RecordsReader(Row, payload, 1, 0, 5, None, "t", 0, None) for _ in range(2))
    first, second = (source.read(1)[0] for source in made)
    assert first == second
    assert hash(first) == hash(second) == hash(tuple(first))


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


@both_kernels
def test_a_reader_in_a_cycle_with_its_buffer_is_collected(kernel: Any) -> None:
    # As the traceback of an error has it. A memoryview that the collector clears under an open view crashes Python.
    payload = memoryview(_kernel_py.encode_records([], BASE_OFFSET, BASE_TIMESTAMP))
    for parts in ([payload, reader(kernel, payload, 0)], [reader(kernel, payload[:], 0)]):
        parts.append(parts)
    del payload, parts
    gc.collect()
