"""Fetched batches become Arrow columns with the schema of Spark's Kafka source."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.arrow_kernels import both_kernels, in_use
from tests.records.client_kernels import outcome
from tests.records.record_values import BASE_OFFSET, record_lists

from ottla.records.batch import (
    BatchFlag,
    TimestampType,
    build_batch,
    read_batch,
    read_header,
    split_batches,
)
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError, UnsupportedMagicError
from ottla.records.record import INT64_MAX, Record

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
arrow = pytest.importorskip("ottla.records.arrow")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REFUSALS = (CorruptRecordsError, UnsupportedMagicError)
codecs = st.sampled_from(list(Codec))


def expected_row(record: Record, timestamp_type: int = 0) -> dict[str, object]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": "orders",
        "partition": 3,
        "offset": record.offset,
        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": timestamp_type,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


def rows_of(batches: list[Any]) -> list[dict[str, object]]:
    rows = []
    for batch in batches:
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def decode(kernel: Any, buf: bytes, **options: Any) -> Any:
    with in_use(kernel):
        return arrow.decode_batches(buf, "orders", 3, **options)


def values_of(decoded: Any) -> list[object]:
    return [row["value"] for row in rows_of(decoded.batches)]


def test_the_columns_are_those_of_sparks_source() -> None:
    assert [f"{field.name}: {field.type}" for field in arrow.SCHEMA] == [
        "key: binary",
        "value: binary",
        "topic: string",
        "partition: int32",
        "offset: int64",
        "timestamp: timestamp[us, tz=UTC]",
        "timestampType: int32",
        "headers: list<element: struct<key: string, value: binary>>",
    ]
    assert arrow.SCHEMA_WITHOUT_HEADERS.names == arrow.SCHEMA.names[:-1]


@both_kernels
@given(
    batches=st.lists(st.tuples(record_lists(), codecs), max_size=3),
    start_offset=st.integers(BASE_OFFSET - 1, BASE_OFFSET + 20) | st.just(0),
    end_offset=st.integers(BASE_OFFSET - 1, BASE_OFFSET + 20) | st.just(INT64_MAX),
)
def test_columns_are_what_reading_the_batches_gives(
    kernel: Any,
    batches: list[tuple[list[Record], Codec]],
    start_offset: int,
    end_offset: int,
) -> None:
    base_offset = BASE_OFFSET
    buf = b""
    wanted: list[Record] = []
    next_offset = start_offset
    for records, codec in batches:
        shift = base_offset - BASE_OFFSET
        moved = [record._replace(offset=record.offset + shift) for record in records]
        last_offset = moved[-1].offset if moved else base_offset
        buf += build_batch(moved, base_offset=base_offset, last_offset=last_offset, codec=codec)
        wanted += moved
        if last_offset >= start_offset and base_offset < end_offset:
            next_offset = min(last_offset + 1, end_offset)
        base_offset = last_offset + 1
    decoded = decode(kernel, buf, start_offset=start_offset, end_offset=end_offset)
    assert rows_of(decoded.batches) == [
        expected_row(record) for record in wanted if start_offset <= record.offset < end_offset
    ]
    assert decoded.next_offset == max(next_offset, start_offset)
    assert all(batch.schema.equals(arrow.SCHEMA, check_metadata=True) for batch in decoded.batches)


@both_kernels
def test_the_append_time_counts_where_the_broker_stamped_it(kernel: Any) -> None:
    records = [Record(0, 5, b"k", b"v"), Record(1, 6, b"k", b"v")]
    appended = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "append_time_ms": 99}
    buf = build_batch(records, **appended) + build_batch(  # type: ignore[arg-type]
        [Record(2, 7, b"k", b"v")], base_offset=2
    )
    decoded = decode(kernel, buf)
    assert rows_of(decoded.batches) == [
        expected_row(Record(0, 99, b"k", b"v"), 1),
        expected_row(Record(1, 99, b"k", b"v"), 1),
        expected_row(Record(2, 7, b"k", b"v"), 0),
    ]


@both_kernels
def test_a_record_without_a_timestamp_has_the_one_that_spark_shows(kernel: Any) -> None:
    decoded = decode(kernel, build_batch([Record(0, -1, None, None)]))
    assert rows_of(decoded.batches)[0]["timestamp"] == EPOCH - timedelta(milliseconds=1)


@both_kernels
def test_a_time_beyond_64_bits_of_microseconds_is_null(kernel: Any) -> None:
    decoded = decode(kernel, build_batch([Record(0, 2**62, b"", b""), Record(1, 1, b"", b"")]))
    assert decoded.batches[0]["timestamp"].is_null().to_pylist() == [True, False]


@both_kernels
def test_markers_and_what_the_caller_does_not_want_are_passed(kernel: Any) -> None:
    flags = BatchFlag.TRANSACTIONAL
    aborted = build_batch([Record(0, 0, b"", b"0")], producer_id=5, flags=flags)
    marker = build_batch(
        [Record(1, 0, b"\0\0\0\0", b"\0\0\0\0\0\0")],
        base_offset=1,
        producer_id=5,
        flags=flags | BatchFlag.CONTROL,
    )
    buf = aborted + marker + build_batch([Record(2, 0, b"", b"2")], base_offset=2)
    decoded = decode(kernel, buf)
    assert (values_of(decoded), decoded.next_offset) == ([b"0", b"2"], 3)
    decoded = decode(kernel, buf, wants=lambda header: header.producer_id != 5)
    assert (values_of(decoded), decoded.next_offset) == ([b"2"], 3)
    assert decode(kernel, buf, wants=lambda header: False) == ([], 3)
    assert decode(kernel, buf, wants=lambda header: False, end_offset=1) == ([], 1)


@both_kernels
def test_an_incomplete_batch_at_the_end_is_left_out(kernel: Any) -> None:
    first = build_batch([Record(0, 0, b"", b"0")])
    second = build_batch([Record(1, 0, b"", b"1")], base_offset=1)
    for cut in (1, len(second) // 2, len(second) - 1):
        decoded = decode(kernel, first + second[:-cut])
        assert (values_of(decoded), decoded.next_offset) == ([b"0"], 1)
    assert decode(kernel, b"", start_offset=7) == ([], 7)


@both_kernels
def test_older_formats_are_not_taken_for_something_incomplete(kernel: Any) -> None:
    old = bytes(8) + (30).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(25)
    with pytest.raises(UnsupportedMagicError, match="magic 1"):
        decode(kernel, old)


@both_kernels
def test_the_position_never_goes_back(kernel: Any) -> None:
    buf = build_batch([Record(offset, 0, b"", b"") for offset in range(10)])
    for wants in (lambda header: True, lambda header: False):
        assert decode(kernel, buf, start_offset=5, end_offset=3, wants=wants) == ([], 5)


@both_kernels
@pytest.mark.parametrize("at", [17, 22, 40, 65, 68])
def test_a_wrong_checksum_is_refused(kernel: Any, at: int) -> None:
    buf = bytearray(build_batch([Record(0, 0, b"", b"0")]))
    buf[at] ^= 1
    with pytest.raises(CorruptRecordsError, match="checksum"):
        decode(kernel, bytes(buf))


def offsets_of(buf: bytes) -> list[int]:
    return [record.offset for record in read_batch(buf, 0)]


def offsets_in_columns(kernel: Any, buf: bytes) -> list[int]:
    with in_use(kernel):
        columns = arrow.RecordColumns(pa.schema([("offset", pa.int64())]))
        try:
            columns.append(buf, 0, read_header(buf, 0), "orders", 3)
        finally:
            found = [offset for batch in columns.finish() for offset in batch[0].to_pylist()]
        return found


@both_kernels
@given(garbage=st.binary(max_size=120), data=st.data())
def test_garbage_is_refused_as_by_reading_the_batch(
    kernel: Any, garbage: bytes, data: st.DataObject
) -> None:
    records = data.draw(record_lists())
    codec = data.draw(codecs)
    whole = bytearray(
        build_batch(records, base_offset=BASE_OFFSET, last_offset=BASE_OFFSET + 2**20, codec=codec)
    )
    # The offset before it may be what it likes.
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(8, len(whole) - 1))] = data.draw(st.integers(0, 255))
    for buf in (garbage, b"\0" * 8 + garbage[8:], bytes(whole)):
        expected = outcome(offsets_of, buf)
        assert outcome(offsets_in_columns, kernel, buf) == expected
        assert isinstance(expected, list) or expected[0] in REFUSALS  # type: ignore[index]


@both_kernels
def test_several_partitions_and_topics_share_columns(kernel: Any) -> None:
    one = build_batch([Record(0, 0, b"", b"0"), Record(1, 0, b"", b"1")])
    with in_use(kernel):
        for topic_type in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
            schema = pa.schema([("topic", topic_type), ("partition", pa.int32())])
            columns = arrow.RecordColumns(schema)
            for topic, partition in [("a", 0), ("a", 0), ("b", 0), ("a", 1)]:
                assert columns.append(one, 0, read_header(one, 0), topic, partition) == 2
            assert columns.row_count == 8
            (batch,) = columns.finish()
            batch.validate(full=True)
            assert batch.schema == schema
            assert batch["topic"].to_pylist() == ["a"] * 4 + ["b"] * 2 + ["a"] * 2
            assert batch["partition"].to_pylist() == [0] * 6 + [1] * 2
            assert columns.row_count == 0


@both_kernels
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_the_schema_chooses_columns_their_order_and_the_unit_of_time(
    kernel: Any, unit: str, zone: str | None
) -> None:
    kind = pa.timestamp(unit, tz=zone)
    schema = pa.schema([("timestamp", kind), ("key", pa.binary())])
    buf = build_batch([Record(0, 1_700_000_000_123, b"k", b"v", (("h", b""),))])
    (batch,) = decode(kernel, buf, schema=schema).batches
    batch.validate(full=True)
    assert batch.schema == schema
    moment = pa.array([1_700_000_000_123]).cast(pa.timestamp("ms", tz=zone)).cast(kind)
    assert batch["timestamp"] == moment


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (("Key", pa.binary()), "no column 'Key'"),
        (("key", pa.string()), "'key' is binary, not string"),
        (("timestamp", pa.timestamp("s")), "'timestamp' is"),
        (("timestamp", pa.int64()), "'timestamp' is"),
        (("topic", pa.dictionary(pa.int8(), pa.string())), "'topic' is"),
    ],
)
def test_a_schema_that_records_do_not_have_is_refused(field: Any, why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        arrow.RecordColumns(pa.schema([field]))
    with pytest.raises(ValueError, match="twice"):
        arrow.RecordColumns(pa.schema([("key", pa.binary()), ("key", pa.binary())]))


@both_kernels
def test_more_than_columns_can_hold_becomes_several_record_batches(kernel: Any) -> None:
    buf = b"".join(
        build_batch([Record(offset, 0, b"", b"v" * 100)], base_offset=offset) for offset in range(7)
    )
    with in_use(kernel):
        columns = arrow.RecordColumns(column_limit_bytes=320)
        for position, header in split_batches(buf):
            columns.append_checked(buf, position, header, "orders", 3)
        assert columns.row_count == 7
        batches = columns.finish()
        assert [batch.num_rows for batch in batches] == [3, 3, 1]
        assert [row["offset"] for row in rows_of(batches)] == list(range(7))
        assert columns.row_count == 0
        tight = arrow.RecordColumns(column_limit_bytes=50)
        with pytest.raises(OverflowError, match="limit"):
            tight.append(buf, 0, read_header(buf, 0), "orders", 3)


@both_kernels
def test_what_was_collected_before_a_corrupt_batch_stays(kernel: Any) -> None:
    good = build_batch([Record(0, 0, b"", b"0")])
    bad = bytearray(good)
    bad[-1] = 9
    with in_use(kernel):
        columns = arrow.RecordColumns()
        columns.append(good, 0, read_header(good, 0), "orders", 3)
        for append in (columns.append, columns.append_checked):
            with pytest.raises(CorruptRecordsError):
                append(bytes(bad), 0, read_header(bad, 0), "orders", 3)
        assert rows_of(columns.finish()) == [expected_row(Record(0, 0, b"", b"0"))]


def test_a_decompressed_batch_has_a_limit() -> None:
    buf = build_batch([Record(0, 0, b"", b"v" * 100_000)], codec=Codec.ZSTD)
    with pytest.raises(CorruptRecordsError, match="limit"):
        arrow.RecordColumns().append(buf, 0, read_header(buf, 0), "t", 0, limit_bytes=1000)
