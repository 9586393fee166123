"""Records are built one by one or many at once, by both kernels alike, and keys are hashed."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from time import time_ns
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.client_kernels import (
    COMPILED,
    NO_LIMIT,
    both_kernels,
    compiled_needed,
    outcome,
    size_of,
)
from tests.records.record_values import BASE_TIMESTAMP, headers, nullable_bytes, timestamps
from tests.records.stamping import with_producer

from ottla.records import _client_kernel_py, _kernel_py
from ottla.records.batch import (
    BatchFlag,
    build_batch,
    build_from,
    crc_matches,
    read_batch,
    read_header,
)
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record

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
        first, taken = together.extend(BASE_TIMESTAMP + 1, values, keys, header, start)
        assert first == 1
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


def sent_class(kernel: Any) -> Any:
    class Sent(kernel.SentRecord):  # type: ignore[misc]
        __slots__ = ()

    return Sent


@both_kernels
@given(records=appended, limit_bytes=st.integers(0, 1000))
def test_what_was_sent_is_told_with_its_place(
    kernel: Any, records: list[Any], limit_bytes: int
) -> None:
    kind, batch = sent_class(kernel), object()
    telling, plain = kernel.RecordsBuilder(limit_bytes), kernel.RecordsBuilder(limit_bytes)
    for timestamp, key, value, header in records:
        index = plain.record_count
        fits = plain.append(timestamp, key, value, header) >= 0
        sent = telling.append_sent(kind, batch, timestamp, key, value, header)
        assert telling.section() == plain.section()
        assert fits == (sent is not None)
        if sent is not None:
            assert type(sent) is kind
            assert sent._batch is batch
            assert (sent._index, sent._timestamp) == (index, timestamp)
            assert (sent._key_size, sent._value_size) == (size_of(key), size_of(value))


@both_kernels
def test_what_tells_of_a_record_can_be_made_by_hand(kernel: Any) -> None:
    sent = sent_class(kernel)("batch", 5, 7, -1, 3)
    assert (sent._batch, sent._index, sent._timestamp) == ("batch", 5, 7)
    assert (sent._key_size, sent._value_size) == (-1, 3)


@both_kernels
def test_a_refused_record_is_not_told_of(kernel: Any) -> None:
    builder = kernel.RecordsBuilder(NO_LIMIT)
    for fields, error in REFUSED:
        with pytest.raises(error, match="record 0: "):
            builder.append_sent(sent_class(kernel), None, *fields)
    assert builder.record_count == 0


@both_kernels
def test_a_closed_builder_takes_no_more(kernel: Any) -> None:
    for records in (0, 2):
        builder = kernel.RecordsBuilder(NO_LIMIT)
        builder.extend(5, [b"v"] * records)
        assert not builder.is_closed
        section = builder.section()
        builder.close()
        assert builder.is_closed
        assert builder.append(5, None, b"") == -1
        assert builder.append_sent(sent_class(kernel), None, 5, None, b"") is None
        assert builder.extend(5, [b"", b""]) == (records, 0)
        assert (builder.record_count, builder.section()) == (records, section)


@both_kernels
def test_callbacks_are_kept_with_what_was_sent(kernel: Any) -> None:
    builder = kernel.RecordsBuilder(30)
    kind = sent_class(kernel)
    first = builder.append_sent(kind, None, 5, None, b"1", (), "first")
    builder.append_sent(kind, None, 5, None, b"2")
    assert builder.append_sent(kind, None, 5, None, b"x" * 100, (), "too large") is None
    with pytest.raises(TypeError):
        builder.append_sent(kind, None, 5, None, "text", (), "refused")
    last = builder.append_sent(kind, None, 5, None, b"3", (), "last")
    builder.close()
    assert builder.append_sent(kind, None, 5, None, b"4", (), "too late") is None
    places = [
        (sent._index, sent._timestamp, sent._key_size, sent._value_size) for sent in (first, last)
    ]
    assert builder.callbacks.entries() == [(*places[0], "first"), (*places[1], "last")]
    assert len(builder.callbacks) == 2
    assert builder.record_count == 3
    assert kernel.RecordsBuilder(30).callbacks is None


@both_kernels
def test_threads_append_at_the_same_time(kernel: Any) -> None:
    builder = kernel.RecordsBuilder(NO_LIMIT)
    kind = sent_class(kernel)
    extended: dict[int, bytes] = {}
    progress = [0] * 4

    def append(name: int) -> int:
        taken = 0
        while not builder.is_closed:
            value = b"%d" % name
            headers = [("name", value)]
            if name % 2:
                sent = builder.append_sent(kind, None, None, value, value, headers, name)
                taken += sent is not None
            else:
                first, added = builder.extend(None, [value] * 3, [value] * 3, headers)
                extended.update(dict.fromkeys(range(first, first + added), value))
                taken += added
            progress[name] = taken
            # While the others are in the middle of it.
            if min(progress) > 2000:
                builder.close()
        return taken

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(append, range(4)))
    finally:
        sys.setswitchinterval(interval)
    records = _kernel_py.decode_records(
        builder.section(), builder.record_count, 0, builder.base_timestamp, None
    )
    assert [record.offset for record in records] == list(range(sum(taken)))
    for record in records:
        assert record.key == record.value == record.headers[0][1]
        assert len(record.headers) == 1
    values = Counter(record.value for record in records)
    assert values == {b"%d" % name: count for name, count in enumerate(taken) if count}
    assert len(extended) == taken[0] + taken[2]
    assert all(records[index].value == value for index, value in extended.items())
    # Every callback was kept, with the place of its record.
    for index, timestamp, key_size, value_size, name in builder.callbacks.entries():
        assert records[index].value == b"%d" % name
        assert records[index].timestamp == timestamp
        assert (key_size, value_size) == (len(b"%d" % name),) * 2
    assert len(builder.callbacks) == taken[1] + taken[3]


@both_kernels
def test_without_a_timestamp_it_is_now(kernel: Any) -> None:
    before = time_ns() // 1_000_000
    appended, extended = kernel.RecordsBuilder(NO_LIMIT), kernel.RecordsBuilder(NO_LIMIT)
    appended.append(None, None, b"")
    extended.extend(None, [b"", b""])
    sent = appended.append_sent(sent_class(kernel), None, None, None, b"")
    after = time_ns() // 1_000_000
    assert before <= appended.base_timestamp <= sent._timestamp == appended.max_timestamp <= after
    assert before <= extended.base_timestamp == extended.max_timestamp <= after


@both_kernels
def test_the_longest_of_many(kernel: Any) -> None:
    assert kernel.longest_bytes([]) == kernel.longest_bytes((None, None)) == -1
    assert kernel.longest_bytes([b"", None]) == 0
    assert kernel.longest_bytes((b"1", b"333", None, b"22")) == 3
    for other in ("text", 5, bytearray(b"1"), memoryview(b"1")):
        assert kernel.longest_bytes([b"1", other]) is None
    with pytest.raises(TypeError):
        kernel.longest_bytes(iter([b""]))


REFUSED: list[Any] = [
    (("5", None, None), TypeError),
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
    assert builder.extend(5, [b""], None, (), 1) == builder.extend(5, []) == (0, 0)


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
    again = with_producer(batch, producer_id=9, producer_epoch=3, base_sequence=0, flags=flags)
    header = read_header(again, 0)
    assert crc_matches(again, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 0)
    assert read_batch(again, 0) == read_batch(batch, 0)
    assert with_producer(again, **stamps, flags=flags) == batch == expected
    plain = with_producer(batch, **stamps, flags=BatchFlag.NONE)
    assert not read_header(plain, 0).is_transactional
    assert with_producer(plain, **stamps, flags=flags) == batch


def test_a_batch_needs_a_record_and_a_stamp_needs_a_whole_batch() -> None:
    builder = _client_kernel_py.RecordsBuilder(NO_LIMIT)
    with pytest.raises(ValueError, match="needs a record"):
        build_from(builder)
    builder.append(5, None, b"v")
    batch = build_from(builder)
    for wrong in (batch[:-1], batch + b"x"):
        with pytest.raises(CorruptRecordsError):
            with_producer(
                wrong, producer_id=1, producer_epoch=0, base_sequence=0, flags=BatchFlag.NONE
            )


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
