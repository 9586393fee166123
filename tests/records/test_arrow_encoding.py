"""Arrow columns of any kind become record batches, each row in its partition."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.arrow_kernels import both_kernels, in_use
from tests.records.record_values import BASE_TIMESTAMP, headers, nullable_bytes, timestamps
from tests.records.stamping import with_producer

from ottla.records.batch import (
    HEADER_BYTES,
    BatchFlag,
    crc_matches,
    read_batch,
    read_header,
)
from ottla.records.client_kernel import partition_of_key
from ottla.records.compression import Codec
from ottla.records.record import Record

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
arrow = pytest.importorskip("ottla.records.arrow")

NOW = BASE_TIMESTAMP + 17
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def one_partition(topic: str) -> int:
    assert topic == "t"
    return 1


def encode(
    kernel: Any, rows: Any, counts: Callable[[str], int] = one_partition, **options: Any
) -> list[Any]:
    with in_use(kernel):
        encoder = arrow.ColumnsEncoder(counts, **{"topic": "t", **options})
        return [*encoder.append(rows, NOW), *encoder.finish()]


def records_of(encoded: list[Any]) -> list[Record]:
    records = []
    for batch in encoded:
        assert crc_matches(batch.data, 0, read_header(batch.data, 0))
        found = read_batch(batch.data, 0)
        assert [record.offset for record in found] == list(range(batch.record_count))
        records += found
    return records


def values_of(encoded: list[Any]) -> list[bytes | None]:
    return [record.value for record in records_of(encoded)]


rows = st.tuples(
    st.none() | timestamps, nullable_bytes, nullable_bytes, st.none() | headers.map(list)
)
blob_types = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])
list_types = st.sampled_from([pa.list_, pa.large_list])


def as_structs(headers: list[Any] | None) -> list[dict[str, Any]] | None:
    return None if headers is None else [{"key": key, "value": value} for key, value in headers]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A table of chunks that are slices, and the rows in it."""
    key_type, value_type = draw(blob_types), draw(blob_types)
    list_type = draw(list_types)(HEADER)
    chunks, wanted = [], []
    for _ in range(draw(st.integers(1, 3))):
        content = draw(st.lists(rows, max_size=8))
        start = draw(st.integers(0, len(content)))
        stop = draw(st.integers(start, len(content)))
        arrays = [
            pa.array([row[0] for row in content], pa.timestamp("ms")),
            pa.array([row[1] for row in content], key_type),
            pa.array([row[2] for row in content], value_type),
            pa.array(
                [as_structs(row[3]) for row in content],
                list_type,
            ),
        ]
        names = ["timestamp", "key", "value", "headers"]
        chunk = pa.RecordBatch.from_arrays(arrays, names=names)
        chunks.append(chunk.slice(start, stop - start))
        wanted += content[start:stop]
    return pa.Table.from_batches(chunks), wanted


@both_kernels
@given(table=tables(), codec=st.sampled_from(list(Codec)), size=st.integers(70, 2000))
def test_slices_and_chunks_survive_the_way_to_batches_and_back(
    kernel: Any, table: Any, codec: Codec, size: int
) -> None:
    columns, wanted = table
    encoded = encode(kernel, columns, codec=codec, batch_size_bytes=size)
    assert [record[1:] for record in records_of(encoded)] == [
        (NOW if timestamp is None else timestamp, key, value, tuple(headers or ()))
        for timestamp, key, value, headers in wanted
    ]
    buf = b"".join(batch.data for batch in encoded)
    with in_use(kernel):
        decoded = arrow.decode_batches(buf, "t", 0)
    back = pa.Table.from_batches(decoded.batches, arrow.SCHEMA)
    assert back["value"].to_pylist() == columns["value"].to_pylist()
    assert back["key"].to_pylist() == columns["key"].to_pylist()
    again = encode(kernel, back, codec=codec, batch_size_bytes=size)
    assert again == encoded


@both_kernels
@pytest.mark.parametrize(
    "kind",
    [
        *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string()),
        *(pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.binary(2)),
        pa.dictionary(pa.int32(), pa.large_binary()),
    ],
    ids=str,
)
def test_keys_and_values_may_be_any_kind_of_bytes_or_text(kernel: Any, kind: Any) -> None:
    texts = ["ab", None, "cd", "ef", None]
    array = pa.array(texts).cast(pa.binary()) if kind == pa.binary(2) else pa.array(texts)
    column = array.cast(kind).slice(1)
    found = records_of(encode(kernel, pa.record_batch({"key": column, "value": column})))
    expected = [None, b"cd", b"ef", None]
    assert [record.value for record in found] == [record.key for record in found] == expected


@both_kernels
def test_null_and_empty_are_not_the_same(kernel: Any) -> None:
    columns = pa.record_batch(
        {
            "key": pa.array([b"", None, None, b""]),
            "value": pa.array([None, b"", None, b""]),
            "headers": pa.array(
                [None, [], [{"key": "", "value": None}], [{"key": "", "value": b""}]],
                pa.list_(HEADER),
            ),
        }
    )
    assert [record[2:] for record in records_of(encode(kernel, columns))] == [
        (b"", None, ()),
        (None, b"", ()),
        (None, None, (("", None),)),
        (b"", b"", (("", b""),)),
    ]


@both_kernels
def test_columns_of_nothing_but_nulls_need_no_type(kernel: Any) -> None:
    nulls = pa.nulls(3)
    names = ("key", "value", "headers", "partition", "timestamp")
    columns = pa.record_batch(dict.fromkeys(names, nulls))
    assert [r[1:] for r in records_of(encode(kernel, columns))] == [(NOW, None, None, ())] * 3
    untyped = pa.array([None, [], None], pa.list_(pa.null()))
    columns = pa.record_batch({"value": nulls, "headers": untyped})
    assert [record.headers for record in records_of(encode(kernel, columns))] == [()] * 3


@both_kernels
def test_nothing_comes_of_no_rows(kernel: Any) -> None:
    assert encode(kernel, arrow.SCHEMA.empty_table()) == []
    assert encode(kernel, pa.RecordBatch.from_pylist([], arrow.SCHEMA)) == []
    full = pa.record_batch({"value": pa.array([b"1"])})
    assert encode(kernel, full.slice(1)) == []
    without_topic = pa.record_batch({"topic": pa.array([], pa.string()), "value": pa.nulls(0)})
    assert encode(kernel, without_topic, topic=None) == []


@both_kernels
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, -1, None]), [1, -1, NOW]),
        (pa.array([1, -1], pa.timestamp("s")), [1000, -1000]),
        (pa.array([1, -1], pa.timestamp("ms", tz="Asia/Tokyo")), [1, -1]),
        (pa.array([1999, -1, None], pa.timestamp("us", tz="UTC")), [1, -1, NOW]),
        (pa.array([1_999_999, -1], pa.timestamp("ns")), [1, -1]),
        (pa.array([datetime.date(1970, 1, 2), None]), [86_400_000, NOW]),
        (pa.array([86_400_000], pa.date64()), [86_400_000]),
    ],
    ids=lambda column: str(getattr(column, "type", "")),
)
def test_timestamps_of_any_unit_and_zone_become_milliseconds(
    kernel: Any, column: Any, expected: list[int]
) -> None:
    columns = pa.record_batch({"value": pa.nulls(len(column)), "timestamp": column})
    encoded = encode(kernel, columns)
    assert [record.timestamp for record in records_of(encoded)] == expected
    header = read_header(encoded[0].data, 0)
    assert (header.base_timestamp, header.max_timestamp) == (expected[0], max(expected))


@both_kernels
def test_lists_of_headers_may_be_parts_of_others(kernel: Any) -> None:
    entries = pa.array([{"key": str(n), "value": b"%d" % n} for n in range(9)], HEADER)
    for list_class, offset_type in [
        (pa.ListArray, pa.int32()),
        (pa.LargeListArray, pa.int64()),
    ]:
        offsets = pa.array([0, 1, 3, 3, 5], offset_type)
        lists = list_class.from_arrays(offsets, entries.slice(3)).slice(1)
        columns = pa.record_batch({"value": pa.nulls(3), "headers": lists})
        assert [record.headers for record in records_of(encode(kernel, columns))] == [
            (("4", b"4"), ("5", b"5")),
            (),
            (("6", b"6"), ("7", b"7")),
        ]
    fixed = pa.FixedSizeListArray.from_arrays(entries.slice(1, 4), 2)
    columns = pa.record_batch({"value": pa.nulls(2), "headers": fixed})
    assert [record.headers for record in records_of(encode(kernel, columns))] == [
        (("1", b"1"), ("2", b"2")),
        (("3", b"3"), ("4", b"4")),
    ]


@both_kernels
def test_fields_of_headers_are_found_by_name_whatever_their_kind(kernel: Any) -> None:
    kind = pa.struct(
        [("other", pa.int8()), ("value", pa.large_string()), ("key", pa.large_binary())]
    )
    lists = pa.array([[{"key": b"k", "value": "v", "other": 1}]], pa.list_(kind))
    columns = pa.record_batch({"value": pa.nulls(1), "headers": lists})
    assert records_of(encode(kernel, columns))[0].headers == (("k", b"v"),)


@both_kernels
@pytest.mark.parametrize(
    "lists",
    [
        pa.array([[{"key": "a", "value": b""}], [None]], pa.list_(HEADER)),
        pa.array([[], [{"key": None, "value": b""}]], pa.list_(HEADER)),
        pa.array([None, [None]], pa.list_(pa.null())),
    ],
)
def test_headers_that_are_null_are_refused(kernel: Any, lists: Any) -> None:
    columns = pa.record_batch({"value": pa.nulls(2), "headers": lists})
    with pytest.raises(ValueError, match="row 1: a header or its key is null"):
        encode(kernel, columns)


@both_kernels
def test_keys_go_where_javas_client_sends_them(kernel: Any) -> None:
    keys = [b"%d" % number for number in range(200)]
    columns = pa.record_batch({"key": pa.array(keys), "value": pa.array(keys)})
    encoded = encode(kernel, columns, lambda topic: 7)
    assert [batch.partition for batch in encoded] == list(range(7))
    for batch in encoded:
        assert values_of([batch]) == [key for key in keys if partition_of_key(key, 7) == batch[1]]


@both_kernels
@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64()], ids=str)
def test_a_partition_of_its_own_comes_before_that_of_the_key(kernel: Any, kind: Any) -> None:
    key = b"same"
    place = partition_of_key(key, 4)
    columns = pa.record_batch(
        {
            "partition": pa.array([9, 1, None, 2, 1], kind).slice(1),
            "key": pa.array([key] * 4),
            "value": pa.array([b"0", b"1", b"2", b"3"]),
        }
    )
    encoded = encode(kernel, columns, lambda topic: 4)
    found = {value: batch.partition for batch in encoded for value in values_of([batch])}
    assert found == {b"0": 1, b"1": place, b"2": 2, b"3": 1}
    with pytest.raises(ValueError, match="row 2: there is no partition 2, only 2"):
        encode(kernel, columns, lambda topic: 2)


@both_kernels
def test_rows_without_keys_fill_batches_or_go_round_robin(kernel: Any) -> None:
    columns = pa.record_batch({"value": pa.array([b"%03d" % n for n in range(6)])})
    (batch,) = encode(kernel, columns, lambda topic: 3, first_partition=5)
    assert (batch.partition, batch.record_count) == (2, 6)
    spread = encode(kernel, columns, lambda topic: 3, sticky_bytes=1)
    assert [values_of([one]) for one in spread] == [
        [b"000", b"003"],
        [b"001", b"004"],
        [b"002", b"005"],
    ]


@both_kernels
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_rows_go_to_the_topic_that_they_name(kernel: Any, kind: Any) -> None:
    asked = []

    def count_of(topic: str) -> int:
        asked.append(topic)
        return {"a": 1, "b": 2}[topic]

    topics = pa.array(["unused", "b", "a", "b", "a"])
    table = pa.table(
        {
            "topic": pa.chunked_array([topics.slice(1, 2).cast(kind), topics.slice(3).cast(kind)]),
            "value": pa.array([b"0", b"1", b"2", b"3"]),
            "partition": pa.array([1, 0, 0, 0]),
        }
    )
    encoded = encode(kernel, table, count_of, topic=None)
    assert {batch[:2]: values_of([batch]) for batch in encoded} == {
        ("b", 0): [b"2"],
        ("b", 1): [b"0"],
        ("a", 0): [b"1", b"3"],
    }
    assert asked == ["b", "a"]
    # The topic that is given counts more, as in Spark.
    assert {batch.topic for batch in encode(kernel, table, lambda topic: 2)} == {"t"}


@both_kernels
def test_topics_may_be_a_dictionary_with_more_than_is_used(kernel: Any) -> None:
    topics = pa.array(["x", "b", "a", "b"]).dictionary_encode().slice(1)
    columns = pa.record_batch({"topic": topics, "value": pa.array([b"0", b"1", b"2"])})
    asked: list[str] = []

    def count_of(topic: str) -> int:
        asked.append(topic)
        return 1

    encoded = encode(kernel, columns, count_of, topic=None)
    assert {batch.topic: values_of([batch]) for batch in encoded} == {
        "b": [b"0", b"2"],
        "a": [b"1"],
    }
    assert asked == ["b", "a"]


@both_kernels
def test_rows_without_a_topic_are_refused(kernel: Any) -> None:
    value = pa.array([b"0", b"1", b"2"])
    topics = pa.array(["a", "a", None])
    for column in (topics, topics.dictionary_encode()):
        with pytest.raises(ValueError, match="row 2: topic is null"):
            encode(kernel, pa.record_batch({"topic": column, "value": value}), topic=None)
    with pytest.raises(ValueError, match="row 0: topic is null"):
        encode(kernel, pa.record_batch({"topic": pa.nulls(3), "value": value}), topic=None)
    with pytest.raises(ValueError, match="no column 'topic'"):
        encode(kernel, pa.record_batch({"value": value}), topic=None)


@pytest.mark.parametrize(
    ("name", "column", "why"),
    [
        ("value", pa.array([1]), "column 'value' has to be binary or a string, not int64"),
        ("key", pa.array([1.5]), "column 'key' has to be binary or a string"),
        ("partition", pa.array(["0"]), "column 'partition' has to be an integer"),
        ("timestamp", pa.array(["0"]), "column 'timestamp' has to be a timestamp"),
        ("headers", pa.array(["0"]), "column 'headers' has to be a list of structs"),
        ("headers", pa.array([["0"]]), "column 'headers' has to be a list of structs"),
        ("headers", pa.array([[{"key": "a"}]]), "have a key and a value"),
        ("headers", pa.array([[{"key": 1, "value": b""}]]), "column 'headers.key' has to be"),
        ("topic", pa.array([b"a"]), "column 'topic' has to be a string"),
        ("topic", pa.array([b"a"]).dictionary_encode(), "a topic has to be a string"),
    ],
)
def test_columns_of_other_kinds_are_refused_by_name(name: str, column: Any, why: str) -> None:
    columns = {"topic": pa.array(["t"]), "value": pa.array([b""]), name: column}
    encoder = arrow.ColumnsEncoder(one_partition)
    with pytest.raises(TypeError, match=why):
        encoder.append(pa.record_batch(columns))
    # Nobody can know which rows were taken.
    for call in (lambda: encoder.append(pa.record_batch({"value": column})), encoder.finish):
        with pytest.raises(ValueError, match="begin with another encoder"):
            call()


def test_a_value_is_needed_and_no_column_twice() -> None:
    with pytest.raises(ValueError, match="no column 'value', only"):
        arrow.ColumnsEncoder(one_partition, topic="t").append(pa.record_batch({"v": pa.nulls(1)}))
    twice = pa.RecordBatch.from_arrays([pa.nulls(1), pa.nulls(1)], names=["value", "value"])
    with pytest.raises(ValueError, match="same name"):
        arrow.ColumnsEncoder(one_partition, topic="t").append(twice)


@both_kernels
def test_batches_are_within_the_limit_and_can_be_stamped(kernel: Any) -> None:
    values = [b"%05d" % number for number in range(1000)]
    columns = pa.record_batch({"value": pa.array(values)})
    flags = BatchFlag.TRANSACTIONAL
    encoded = encode(kernel, columns, batch_size_bytes=500, flags=flags)
    assert values_of(encoded) == values
    assert len(encoded) > 1
    for batch in encoded:
        assert HEADER_BYTES < len(batch.data) <= 500
        header = read_header(batch.data, 0)
        assert header.record_count == batch.record_count == header.last_offset_delta + 1
        assert header.is_transactional
        assert header[9:12] == (-1, -1, -1)
        stamped = with_producer(
            batch.data,
            producer_id=7,
            producer_epoch=2,
            base_sequence=5,
            flags=BatchFlag.TRANSACTIONAL,
        )
        assert read_header(stamped, 0)[9:12] == (7, 2, 5)
        assert read_batch(stamped, 0) == read_batch(batch.data, 0)


def test_full_batches_are_given_out_early_and_the_clock_is_the_default_timestamp() -> None:
    before_ms = datetime.datetime.now(datetime.UTC).timestamp() * 1000 - 1
    encoder = arrow.ColumnsEncoder(one_partition, topic="t", batch_size_bytes=100)
    columns = pa.record_batch({"value": pa.array([b"v" * 30] * 3)})
    first = encoder.append(columns)
    assert encoder.row_count == 3
    assert [batch.record_count for batch in first + encoder.finish()] == [1, 1, 1]
    assert len(first) == 2
    assert records_of(first)[0].timestamp >= before_ms
    assert [batch.record_count for batch in encoder.append(columns)] == [1, 1]
