"""Rows that Spark writes: columns as records, batch queries in both deliveries, tasks that fail and are tried again."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.clients.transactions_seen import wait_until_stable
from tests.spark.pipelines import Pipe, records_of
from tests.spark.scenes import in_spite_of_slow_starts

import ottla
from ottla.model import TopicPartition
from ottla.spark.driver_folder import driver_folder
from ottla.spark.pipeline.failure_policy import judge

pytestmark = pytest.mark.timeout(300)

COLUMNS = (
    "key string, value string, headers array<struct<key:string,value:binary>>, topic string, "
    "partition int, timestamp timestamp"
)
AT = datetime.datetime(2026, 11, 15, 12, 0, 0, 123000)
ROWS: list[tuple[Any, ...]] = [
    ("k1", "v1", [("h", b"1"), ("n", None)], None, 1, AT),
    ("k1", None, [], None, None, AT),
    (None, "v3", None, None, 0, AT),
    ("", "", None, None, 1, None),
]


def options_of(pipe: Pipe, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": pipe.servers, "topic": pipe.sink, **more}


def read(pipe: Pipe, topic: str) -> list[Any]:
    """All that was written; what writes has returned."""
    with ottla.Consumer(
        {"bootstrap.servers": pipe.servers, "isolation.level": "read_committed"}
    ) as consumer:
        places = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        wait_until_stable(pipe.servers, *places)
        return records_of(consumer, topic)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_every_column_becomes_what_it_is_called(spark: Any, pipe: Pipe, delivery: str) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS)
    frame.write.format("ottla").options(**options_of(pipe, delivery=delivery)).mode("append").save()
    found = {
        (record.key, record.value): (record.partition, record.headers, record.timestamp_ms)
        for record in read(pipe, pipe.sink)
    }
    at_ms = round(AT.timestamp() * 1000)
    assert len(found) == len(ROWS)
    assert found[b"k1", b"v1"] == (1, (("h", b"1"), ("n", None)), at_ms)
    assert found[None, b"v3"] == (0, (), at_ms)
    place = found[b"", b""]
    assert place[:2] == (1, ())
    assert place[2] > at_ms - 365 * 86_400_000
    assert found[b"k1", None][2] == at_ms
    # Java's partitioner and ours agree on keys.
    with ottla.Producer(bootstrap_servers=pipe.servers) as producer:
        there = producer.send(pipe.source, b"x", b"k1").result(10).partition
    assert found[b"k1", None][0] == there


def test_rows_name_their_topics(spark: Any, pipe: Pipe) -> None:
    other = f"{pipe.name}-other"
    with ottla.Admin(bootstrap_servers=pipe.servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(other, 1)])
    rows = [("a", pipe.sink), ("b", other), ("c", pipe.sink)]
    frame = spark.createDataFrame(rows, "value string, topic string")
    servers = {"kafka.bootstrap.servers": pipe.servers, "delivery": "exactly-once"}
    frame.write.format("ottla").options(**servers).mode("append").save()
    assert sorted(record.value for record in read(pipe, pipe.sink)) == [b"a", b"c"]
    assert [record.value for record in read(pipe, other)] == [b"b"]


def test_a_batch_in_one_transaction_is_seen_whole(spark: Any, pipe: Pipe) -> None:
    frame = spark.range(3000, numPartitions=3).selectExpr("cast(id as string) value")
    chosen = options_of(pipe, delivery="exactly-once", **{"kafka.compression.type": "lz4"})
    frame.write.format("ottla").options(**chosen).mode("append").save()
    with ottla.Admin(bootstrap_servers=pipe.servers) as admin:
        producers = [each for each in admin.list_transactions() if "ottla-batch" in str(each)]
    assert producers
    values = [record.value for record in read(pipe, pipe.sink)]
    assert Counter(values) == Counter(b"%d" % number for number in range(3000))


@pytest.mark.parametrize(
    ("columns", "more", "mode", "why"),
    [
        ("value string", {}, "overwrite", "mode('append')"),
        ("value int", {}, "append", "string or binary"),
        ("value string", {"topics": "x"}, "append", "did you mean topic?"),
    ],
)
def test_what_cannot_be_written_is_refused(
    spark: Any, pipe: Pipe, columns: str, more: dict[str, str], mode: str, why: str
) -> None:
    value = "1" if "string" in columns else 1
    frame = spark.createDataFrame([(value,)], columns)
    with pytest.raises(Exception, match=r"ConfigError|ottla") as caught:
        frame.write.format("ottla").options(**options_of(pipe, **more)).mode(mode).save()
    assert why in str(caught.value)
    assert read(pipe, pipe.sink) == []


@pytest.mark.parametrize(
    ("trigger", "more", "why"),
    [
        ({"continuous": "1 second"}, {}, "ottla does not support continuous processing"),
        ({"realTime": "5 seconds"}, {}, "STREAMING_REAL_TIME_MODE"),
        (
            {"processingTime": "1 second"},
            {"asyncProgressTrackingEnabled": "true"},
            "ottla does not support async progress tracking",
        ),
    ],
    ids=["continuous", "real-time", "asynchronous"],
)
def test_triggers_without_micro_batches_are_refused_when_the_query_starts(
    spark: Any, pipe: Pipe, tmp_path: Path, trigger: Any, more: dict[str, str], why: str
) -> None:
    frame = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", pipe.servers)
        .options(subscribe=pipe.source, startingOffsets="earliest")
        .load()
        .selectExpr("value")
    )
    writer = frame.writeStream.format("ottla").options(**options_of(pipe, pipeline=pipe.name))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).options(**more)
    mode = "update" if "realTime" in trigger else "append"
    writer = writer.outputMode(mode).trigger(**trigger)
    with pytest.raises(Exception, match=why):
        in_spite_of_slow_starts(lambda: writer.start().awaitTermination(60))
    assert pipe.output() == []


def test_continuous_processing_of_a_foreign_source_is_refused_when_the_query_starts(
    spark: Any, pipe: Pipe, tmp_path: Path
) -> None:
    """Spark asks sources whether they can do that, and no sinks."""
    frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    writer = frame.writeStream.format("ottla").options(**options_of(pipe, pipeline=pipe.name))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.trigger(continuous="1 second")
    with pytest.raises(Exception, match="this query is processed continuously"):
        in_spite_of_slow_starts(lambda: writer.start().awaitTermination(60))
    assert pipe.output() == []


def test_a_task_that_fails_and_is_tried_again_writes_its_rows_once(
    spark: Any, pipe: Pipe, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    flag = str(tmp_path / "failed")

    def fail_once(value: str) -> str:
        import pathlib

        mark = pathlib.Path(f"{flag}-{int(value.split()[1]) % 2}")
        if value.endswith("7") and not mark.exists():
            mark.touch()
            raise RuntimeError("the task fails in the middle")
        return value

    # Not through Arrow, for which Spark wants pandas.
    met = f.udf(fail_once, "string", useArrow=False)
    frame = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", pipe.servers)
        .options(subscribe=pipe.source, startingOffsets="earliest", pipeline=pipe.name)
        .load()
        .selectExpr("concat('0 ', cast(value as string)) value")
        .select(met("value").alias("value"))
    )
    writer = frame.writeStream.format("ottla").options(**options_of(pipe, pipeline=pipe.name))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    failures: list[str] = []
    # Where Spark tries no task again, the query fails, `abort` is called, and the query is started again.
    while True:
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            break
        except Exception as error:
            failures.append(str(error))
            assert len(failures) < 10, failures
    values = Counter(int(record.value.split()[1]) for record in read(pipe, pipe.sink))
    assert values == Counter(range(pipe.count))
    own = [each for each in failures if "the task fails in the middle" in each]
    # Values that end with 7 are all in one partition, and its task is told to fail once.
    assert len(own) == len(list(tmp_path.glob("failed-*"))) == 1
    # On a busy machine Spark gives up waiting for a Python process to start; nothing else may fail.
    others = [judge("StreamingQueryException", each) for each in failures if each not in own]
    assert all("a part of Spark is gone" in each.reason for each in others), failures


@pytest.mark.parametrize(
    ("pipeline", "is_interrupted", "is_stateful"),
    [
        ("given", True, False),
        pytest.param("none", False, False, marks=pytest.mark.campaign),
        pytest.param("given", False, True, marks=pytest.mark.campaign),
    ],
)
def test_a_checkpoint_of_spark_sql_kafka_goes_on_when_both_sides_are_switched(
    spark: Any, pipe: Pipe, tmp_path: Path, pipeline: str, is_interrupted: bool, is_stateful: bool
) -> None:
    checkpoint = tmp_path / "checkpoint"

    def run(sink: str, of_source: str | None, of_sink: str | None) -> None:
        reader = spark.readStream.format("ottla").options(subscribe=pipe.source)
        reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=60)
        reader = reader.option("kafka.bootstrap.servers", pipe.servers)
        rows = (reader.option("pipeline", of_source) if of_source else reader).load()
        rows = rows.selectExpr("concat('0 ', cast(value as string)) value")
        rows = rows.dropDuplicates(["value"]) if is_stateful else rows
        writer = rows.writeStream.format(sink)
        if sink == "ottla":
            given = options_of(pipe) if of_sink is None else options_of(pipe, pipeline=of_sink)
            writer = writer.options(**given)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        in_spite_of_slow_starts(lambda: writer.start().awaitTermination())

    # As spark-sql-kafka leaves it: another sink, and positions that are topics only.
    run("noop", None, None)
    plans = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    for plan in plans:
        *head, position = plan.read_text().splitlines()
        plan.write_text("\n".join([*head, json.dumps(json.loads(position)["topics"])]))
        (checkpoint / "offsets" / f".{plan.name}.crc").unlink(missing_ok=True)
    if is_interrupted:
        # In the second micro-batch; the last ones have no records, only those of an aborted transaction.
        for plan in plans[2:]:
            plan.unlink()
        for plan in plans[1:]:
            (checkpoint / "commits" / plan.name).unlink()
        del plans[2:]
    ends = [json.loads(plan.read_text().splitlines()[-1])[pipe.source] for plan in plans]
    first = ends[0] if is_interrupted else ends[-1]
    pipe.feed(40)
    name = pipe.name if pipeline == "given" else None
    if name is not None:
        with pytest.raises(Exception, match="the source has pipeline='other', and the sink"):
            run("ottla", "other", name)
    run("ottla", name, name)
    expected = [
        int(record.value)
        for record in read(pipe, pipe.source)
        if record.offset >= first[str(record.partition)]
    ]
    found = [int(record.value.split()[1]) for record in read(pipe, pipe.sink)]
    assert Counter(found) == Counter(expected)
    assert len(expected) == (130 if is_interrupted else 40)


def test_rows_that_are_too_many_for_a_message_arrive_and_leave_no_file(
    spark: Any, pipe: Pipe
) -> None:
    rows = spark.range(0, 24_000, 1, 2).selectExpr(
        "cast(id as string) key", "repeat('x', 100) value"
    )
    options = options_of(pipe, delivery="exactly-once")
    rows.write.format("ottla").options(**options).mode("append").save()
    found = [int(record.key) for record in read(pipe, pipe.sink)]
    assert sorted(found) == list(range(24_000))
    (folder,) = spark.sparkContext.parallelize([0], 1).map(lambda _: driver_folder()).collect()
    # It was made for files, and they are gone.
    assert list((Path(folder) / "ottla").iterdir()) == []
