"""send_arrow: columns become the records that `send` would have made of their rows."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa
import pytest
from tests.broker.requests import eventually
from tests.client.producer.meddler import Meddler
from tests.client.producer.reading import (
    all_committed,
    has_its_memory_back,
    headers_of,
    records_of,
    values_of,
)
from tests.client.producer.transactional import QUICK, make, max_block_ms, version

import ottla
import ottla.aio
from ottla.errors import IllegalStateError, KafkaError, TimedOutError
from ottla.records.client_kernel import partition_of_key
from ottla.records.compression import Codec

__all__ = ["make", "version"]  # fixtures

PARTITIONS = 2
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME_MS = 1_700_000_000_000


@pytest.fixture
def producer(servers: str) -> Any:
    with ottla.Producer(bootstrap_servers=servers, linger_ms=0) as made:
        yield made


def table(count: int, size_bytes: int = 10) -> pa.Table:
    values = [b"%0*d" % (size_bytes, number) for number in range(count)]
    return pa.table({"key": [b"%d" % number for number in range(count)], "value": values})


def everything(servers: str, topic: str) -> list[list[bytes | None]]:
    return [values_of(servers, topic, partition) for partition in range(PARTITIONS)]


def test_rows_become_records_with_all_their_fields(
    producer: ottla.Producer, servers: str, topic: str
) -> None:
    rows = pa.table(
        {
            "timestamp": pa.array([TIME_MS * 1000, None], pa.timestamp("us", tz="UTC")),
            "headers": pa.array([[{"key": "a", "value": b"1"}], None], HEADERS),
            "partition": pa.array([1, 1], pa.int64()),
            "value": pa.array(["tea", None]),
            "key": pa.array([b"table 4", None], pa.binary()),
        }
    )
    sent = producer.send_arrow(topic, rows, timestamp_ms=TIME_MS + 5)
    assert len(sent) == 2
    assert sent.result(10) == [ottla.WrittenRows(topic, 1, 0, 2)]
    assert sent.done()
    first, second = records_of(servers, topic, 1)
    assert (first.key, first.value, first.timestamp) == (b"table 4", b"tea", TIME_MS)
    assert first.headers == (("a", b"1"),)
    assert (second.key, second.value, second.timestamp) == (None, None, TIME_MS + 5)


def test_keys_choose_the_partition_as_in_send(
    producer: ottla.Producer, servers: str, topic: str
) -> None:
    rows = table(100)
    producer.send_arrow(topic, rows).result(10)
    expected: list[list[bytes]] = [[], []]
    for key, value in zip(*(rows[name].to_pylist() for name in ("key", "value")), strict=True):
        expected[partition_of_key(key, PARTITIONS)].append(value)
    assert everything(servers, topic) == expected


def test_a_partition_for_all_rows(producer: ottla.Producer, servers: str, topic: str) -> None:
    sent = producer.send_arrow(topic, table(10), partition=1)
    assert [(each.partition, each.row_count) for each in sent.result(10)] == [(1, 10)]
    assert len(values_of(servers, topic, 1)) == 10


def test_batches_tables_readers_and_streams_are_rows(
    producer: ottla.Producer, servers: str, topic: str
) -> None:
    rows = table(10)

    class Frame:
        """As data frames of other libraries."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return rows.__arrow_c_stream__(requested_schema)

    for each in (rows, rows.to_batches()[0], rows.to_reader(), Frame(), rows.slice(0, 0)):
        producer.send_arrow(topic, each, partition=0)
    producer.flush()
    assert values_of(servers, topic, 0) == rows["value"].to_pylist() * 4


def test_an_empty_table_sends_nothing(producer: ottla.Producer, topic: str) -> None:
    sent = producer.send_arrow(topic, table(0))
    assert len(sent) == 0
    assert sent.done()
    assert sent.result(0) == []


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_large_tables_are_many_batches_with_the_codec_of_the_producer(
    servers: str, topic: str, codec: Literal["none", "zstd"]
) -> None:
    rows = table(30_000, size_bytes=100)
    told: list[tuple[int, Exception | None]] = []
    with ottla.Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        sent = producer.send_arrow(topic, rows)
        sent.add_batch_callback(lambda count, error: told.append((count, error)))
        written = sent.result(30)
        assert eventually(lambda: has_its_memory_back(producer))
    assert sum(each.row_count for each in written) == len(rows)
    assert len(written) > PARTITIONS
    assert sum(count for count, _ in told) == len(rows)
    assert {error for _, error in told} == {None}
    for partition in range(PARTITIONS):
        batches = headers_of(servers, topic, partition)
        assert {batch.header.codec for batch in batches} <= {Codec[codec.upper()]}
        offsets = [(each.offset, each.row_count) for each in written if each.partition == partition]
        assert offsets == [
            (batch.header.base_offset, batch.header.record_count) for batch in batches
        ]
    found = [value or b"" for values in everything(servers, topic) for value in values]
    assert sorted(found) == rows["value"].to_pylist()


def test_rows_without_keys_fill_one_partition_after_another(
    producer: ottla.Producer, servers: str, topic: str
) -> None:
    rows = table(30_000, size_bytes=100).select(["value"])
    producer.send_arrow(topic, rows).result(30)
    counts = [len(values) for values in everything(servers, topic)]
    assert sum(counts) == len(rows)
    assert min(counts) > 5000


def test_rows_are_behind_what_was_sent_before(
    producer: ottla.Producer, servers: str, topic: str
) -> None:
    producer.send(topic, b"before", partition=0)
    producer.send_arrow(topic, table(2), partition=0)
    producer.send(topic, b"after", partition=0)
    producer.flush()
    values = values_of(servers, topic)
    assert values == [b"before", *table(2)["value"].to_pylist(), b"after"]


WRONG: list[tuple[Any, type[Exception], str]] = [
    ({"key": [b"k"]}, ValueError, "there is no column 'value'"),
    ({"value": [b"v"], "offset": [1], "size": [2]}, ValueError, "a record has no 'offset', 'size'"),
    ({"value": [1]}, TypeError, "column 'value' has to be binary or a string, not int64"),
    ({"value": [b"v"], "key": [1.0]}, TypeError, "column 'key' has to be binary or a string"),
    ({"value": [b"v"], "headers": [b"h"]}, TypeError, "column 'headers' has to be a list"),
    ({"value": [b"v"], "partition": ["0"]}, TypeError, "column 'partition' has to be an integer"),
    ({"value": [b"v"], "partition": [2]}, ValueError, "partition"),
    ({"value": [b"v"], "partition": [-1]}, ValueError, "partition"),
    (
        {"value": [b"v"], "timestamp": ["now"]},
        TypeError,
        "column 'timestamp' has to be a timestamp",
    ),
]


@pytest.mark.parametrize(("columns", "error", "text"), WRONG)
def test_wrong_columns_are_refused_and_send_nothing(
    producer: ottla.Producer, servers: str, topic: str, columns: Any, error: Any, text: str
) -> None:
    with pytest.raises(error, match=text):
        producer.send_arrow(topic, pa.table(columns))
    producer.send_arrow(topic, table(1), partition=0).result(10)
    assert everything(servers, topic) == [table(1)["value"].to_pylist(), []]


def test_what_is_no_table_is_refused(producer: ottla.Producer, topic: str) -> None:
    with pytest.raises(TypeError, match=r"rows are a pyarrow Table.*not dict"):
        producer.send_arrow(topic, {"value": [b"v"]})
    twice = pa.RecordBatch.from_arrays([pa.array([b"v"])] * 2, ["value", "value"])
    with pytest.raises(ValueError, match="columns with the same name"):
        producer.send_arrow(topic, twice)
    rows = pa.table({"value": [b"v"], "partition": [0]})
    with pytest.raises(ValueError, match="exclude each other"):
        producer.send_arrow(topic, rows, partition=0)


@pytest.mark.parametrize(
    "options",
    [
        {"value_serializer": str.encode},
        {"partitioner_class": "round-robin"},
        {"partitioner_ignore_keys": True},
    ],
)
def test_options_that_would_have_to_see_each_record_are_refused(
    servers: str, topic: str, options: Any
) -> None:
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        with pytest.raises(IllegalStateError, match="send_arrow"):
            producer.send_arrow(topic, table(1))
        if "value_serializer" not in options:
            producer.send_arrow(topic, table(1), partition=0).result(10)


def test_a_row_that_is_too_large_is_refused(servers: str, topic: str) -> None:
    rows = pa.table({"value": [b"small", b"x" * 5000, b"small"]})
    with (
        ottla.Producer(bootstrap_servers=servers, max_request_size=4000) as producer,
        pytest.raises(KafkaError, match=r"max\.request\.size is 4000") as caught,
    ):
        producer.send_arrow(topic, rows, partition=0)
    accepted = caught.value.context["accepted"]
    assert isinstance(accepted, ottla.SentRows)
    assert len(accepted) == len(values_of(servers, topic)) <= 1
    assert pickle.loads(pickle.dumps(caught.value)).context["accepted"] == str(accepted)


def test_batches_that_the_broker_finds_too_large_are_split(
    producer: ottla.Producer, servers: str, topic: str
) -> None:
    with ottla.Admin(bootstrap_servers=servers) as admin:
        small = {"max.message.bytes": "3000"}
        admin.create_topics([ottla.admin.NewTopic(topic, PARTITIONS, configs=small)])
    rows = table(100, size_bytes=100)
    told: list[int] = []
    sent = producer.send_arrow(topic, rows, partition=0)
    sent.add_batch_callback(lambda count, error: told.append(count))
    written = sent.result(20)
    assert len(written) > 1
    assert [each.offset for each in written] == [
        sum(each.row_count for each in written[:place]) for place in range(len(written))
    ]
    assert told == [each.row_count for each in written]
    assert values_of(servers, topic) == rows["value"].to_pylist()


def test_rows_wait_for_memory(servers: str, topic: str) -> None:
    rows = table(100_000, size_bytes=100)
    with ottla.Producer(bootstrap_servers=servers, buffer_memory=3_000_000) as producer:
        sent = producer.send_arrow(topic, rows)
        assert sum(each.row_count for each in sent.result(30)) == len(rows)
        assert eventually(lambda: has_its_memory_back(producer))


def test_without_memory_the_call_ends_and_tells_what_was_accepted(
    meddler: Meddler, servers: str, topic: str
) -> None:
    rows = table(100_000, size_bytes=100)
    with ottla.Producer(bootstrap_servers=servers, buffer_memory=3_000_000) as producer:
        producer.partitions_for(topic)
        hold = threading.Event()
        meddler.on("Produce", hold=hold, times=1000)
        with max_block_ms(producer, 300), pytest.raises(TimedOutError) as caught:
            producer.send_arrow(topic, rows, partition=0)
        hold.set()
        accepted = caught.value.context["accepted"]
        assert isinstance(accepted, ottla.SentRows)
        written = accepted.result(30)
    assert 0 < sum(each.row_count for each in written) == len(accepted) < len(rows)
    assert values_of(servers, topic) == rows["value"].to_pylist()[: len(accepted)]


def test_rows_become_part_of_the_transaction(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    with pytest.raises(IllegalStateError):
        producer.send_arrow(topic, table(1))
    for outcome in ("commit", "abort", "commit"):
        producer.begin_transaction()
        producer.send_arrow(topic, pa.table({"value": [outcome]}), partition=0)
        producer.send(topic, b"single", partition=0)
        producer.send_arrow(topic, pa.table({"value": [outcome]}), partition=1)
        producer.flush()
        getattr(producer, f"{outcome}_transaction")()
    once = [b"commit", b"single"]
    assert all_committed(servers, topic, PARTITIONS) == [*once, *once, b"commit", b"commit"]
    assert b"abort" in values_of(servers, topic)


def test_refused_rows_abort_the_transaction(
    make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make(max_request_size=4000)
    producer.init_transactions()
    with pytest.raises(KafkaError, match=r"max\.request\.size"), producer.transaction():
        producer.send_arrow(topic, pa.table({"value": [b"x" * 5000]}), partition=0)
    with producer.transaction():
        producer.send_arrow(topic, pa.table({"value": ["later"]}), partition=0)
    assert all_committed(servers, topic, PARTITIONS) == [b"later"]


def test_without_acknowledgements_there_are_no_offsets(servers: str, topic: str) -> None:
    options: Any = {"acks": 0, "enable_idempotence": False}
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        written = producer.send_arrow(topic, table(5), partition=1).result(10)
    assert written == [ottla.WrittenRows(topic, 1, -1, 5)]


def test_the_asyncio_producer_sends_the_same(servers: str, topic: str) -> None:
    rows = table(30_000, size_bytes=100)

    async def main() -> None:
        options: Any = {**QUICK, "transactional_id": topic}
        async with ottla.aio.Producer(bootstrap_servers=servers, **options) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                sent = await producer.send_arrow(topic, rows)
                assert repr(sent) == "<SentRows 30000>"
                written = await sent
                assert sum(each.row_count for each in written) == len(rows)
                assert await sent == written
            with pytest.raises(ValueError, match="a record has no"):
                await producer.send_arrow(topic, pa.table({"value": [b""], "other": [1]}))

    asyncio.run(main())
    found = all_committed(servers, topic, PARTITIONS)
    assert sorted(found) == rows["value"].to_pylist()  # type: ignore[type-var]


def test_a_partition_that_does_not_exist_is_an_error_after_max_block_ms(servers: str) -> None:
    with (
        ottla.Producer(bootstrap_servers=servers, max_block_ms=300) as producer,
        pytest.raises(TimedOutError, match="Partition 7"),
    ):
        producer.send_arrow("arrow-partitions", table(1), partition=7)
