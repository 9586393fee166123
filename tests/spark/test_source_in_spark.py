"""The source in Spark itself."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.scenes import in_spite_of_slow_starts
from tests.spark.source_stage import SourceStage
from tests.waiting import in_time

pytestmark = pytest.mark.timeout(900)

WAIT_SECONDS = 200.0
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-source.md"


class Query:
    """A streaming query whose rows end up in a list, batch by batch."""

    def __init__(self, spark: Any, stage: SourceStage, checkpoint: Path) -> None:
        self.spark = spark
        self.stage = stage
        self.checkpoint = checkpoint
        self.batches: list[list[str]] = []

    def start(self, trigger: dict[str, Any], **options: Any) -> Any:
        reader = self.spark.readStream.format("ottla").options(**self.stage.options(**options))
        return (
            reader.load()
            .selectExpr("cast(value as string) as value")
            .writeStream.foreachBatch(self._collect)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .start()
        )

    def finish(self, **options: Any) -> None:
        """Read up to the end."""
        self._run({"availableNow": True}, options)

    def run_once(self, **options: Any) -> None:
        """One micro-batch."""
        self._run({"once": True}, options)

    def _run(self, trigger: dict[str, Any], options: dict[str, Any]) -> None:
        def run() -> bool:
            ended: bool = self.start(trigger, **options).awaitTermination(WAIT_SECONDS)
            return ended

        assert in_spite_of_slow_starts(run)

    def _collect(self, frame: Any, _: int) -> None:
        self.batches.append([row.value for row in frame.collect()])

    def values(self) -> list[str]:
        return [value for batch in self.batches for value in batch]


@pytest.fixture
def query(spark: Any, stage: SourceStage, tmp_path: Path) -> Query:
    return Query(spark, stage, tmp_path / "checkpoint")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        in_time(deadline)
        time.sleep(0.05)


def test_a_batch_query_needs_no_registration_and_reads_every_record(
    spark: Any, stage: SourceStage
) -> None:
    stage.create(2)
    stage.fill(700, 300, headers=[("h", b"x")])
    frame = spark.read.format("ottla").options(**stage.options(includeHeaders="true")).load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    found = frame.groupBy("partition").agg({"offset": "sum", "value": "count"}).collect()
    assert {tuple(row) for row in found} == {
        (0, sum(range(700)), 700),
        (1, sum(range(300)), 300),
    }
    joined = spark.read.format("ottla").options(**stage.options(minRecordsPerPartition=800)).load()
    found = joined.selectExpr("spark_partition_id()", "partition", "offset").collect()
    assert sorted(found) == [(0, 0, at) for at in range(700)] + [(0, 1, at) for at in range(300)]
    first = frame.where("partition = 1 and offset = 7").collect()[0]
    assert (bytes(first.value), first.topic, first.timestampType) == (b"1:7", stage.topic, 0)
    assert [(each.key, bytes(each.value)) for each in first.headers] == [("h", b"x")]


def test_the_guide_runs(spark: Any, stage: SourceStage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.create(1, "orders")
    stage.fill(3, topic="orders")
    text = GUIDE.read_text(encoding="utf-8")
    names: dict[str, Any] = {"spark": spark, "servers": stage.servers}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        exec(block, names)
    spark.streams.removeListener(names["listener"])
    stage.delete("orders")
    assert "timestampType: integer" in capsys.readouterr().out
    assert names["orders"].isStreaming


def test_an_empty_topic_is_an_empty_frame(spark: Any, stage: SourceStage) -> None:
    stage.create(1)
    assert spark.read.format("ottla").options(**stage.options()).load().collect() == []


def test_a_query_that_ends_reads_everything_once_in_pieces_and_goes_on_after_a_restart(
    query: Query, stage: SourceStage
) -> None:
    stage.create(2)
    stage.fill(70, 30)
    options: dict[str, Any] = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 40}
    group = f"lag-{stage.topic}"
    options |= {"commitOffsets": "true", "kafka.group.id": group}
    query.finish(**options)
    assert [len(batch) for batch in query.batches] == [40, 40, 20]
    assert committed(stage, group) == {0: 70, 1: 30}
    stage.fill(0, 5)
    # Tasks may be others after a restart.
    options["minRecordsPerPartition"] = 1000
    stage.fill(4, 0)
    query.finish(**options)
    assert len(query.batches[3]) == 9
    assert len(query.values()) == 109
    assert len(set(query.values())) == 100, "the last nine have the values of others"


def test_with_trigger_once_the_group_is_told_when_the_query_starts_again(
    query: Query, stage: SourceStage
) -> None:
    """Spark calls the source when it plans a micro-batch, and with this trigger plans none after the one."""
    stage.create(1)
    stage.fill(20)
    group = f"lag-{stage.topic}"
    options = {"startingOffsets": "earliest", "commitOffsets": "true", "kafka.group.id": group}
    query.run_once(**options)
    assert len(query.values()) == 20
    assert committed(stage, group) == {}
    query.run_once(**options)
    assert committed(stage, group) == {0: 20}


def test_a_running_query_finds_new_partitions_and_tells_its_lag(
    spark: Any, query: Query, stage: SourceStage
) -> None:
    from ottla.spark import LagListener, QueryLag

    stage.create(1)
    stage.fill(30)
    told: list[QueryLag] = []
    listener = LagListener(told.append)
    spark.streams.addListener(listener)
    group = f"lag-{stage.topic}"

    def begin() -> Any:
        begun = query.start(
            {"processingTime": "0 seconds"},
            **{"startingOffsets": "earliest", "maxOffsetsPerTrigger": 20, "failOnDataLoss": "true"},
            **{"commitOffsets": "true", "kafka.group.id": group},
        )
        until(lambda: len(query.values()) == 30 or begun.exception() is not None)
        if begun.exception() is not None:
            raise begun.exception()
        return begun

    try:
        running = in_spite_of_slow_starts(begin)
        stage.admin.create_partitions({stage.topic: 2})
        stage.fill(0, 4)
        until(lambda: len(query.values()) == 34)
        until(lambda: len(told) >= 3)
        # Also of the last micro-batch, without another one.
        until(lambda: committed(stage, group) == {0: 30, 1: 4})
        assert [lag.query_id for lag in listener.lags()] == [str(running.id)]
    finally:
        for each in spark.streams.active:
            each.stop()
        until(lambda: not listener.lags())
        spark.streams.removeListener(listener)
    assert told[0].partitions == {stage.at(0): 10}
    assert told[0].total == 10
    assert told[2].partitions == {stage.at(0): 0, stage.at(1): 0}


def committed(stage: SourceStage, group: str) -> dict[int, int]:
    found = stage.admin.list_consumer_group_offsets([group])[group]
    return {each.partition: at.offset for each, at in found.items() if at is not None}


def test_a_query_continues_a_checkpoint_of_sparks_own_source(
    query: Query, stage: SourceStage
) -> None:
    stage.create(1)
    stage.fill(5)
    options = {"startingOffsets": "earliest"}
    query.finish(**options)
    # Spark's own source writes nothing but topics into the same place.
    plan = query.checkpoint / "offsets" / "0"
    *head, position = plan.read_text().splitlines()
    plan.write_text("\n".join([*head, json.dumps(json.loads(position)["topics"])]))
    stage.fill(3)
    query.finish(**options)
    assert [len(batch) for batch in query.batches] == [5, 3]


def test_what_is_wrong_with_the_options_is_said_when_the_query_starts(
    query: Query, stage: SourceStage
) -> None:
    stage.create(1)
    with pytest.raises(Exception, match="endingOffsets is for a batch query that reads") as caught:
        query.finish(endingOffsets="latest")
    assert "UnboundLocalError" not in str(caught.value)


def test_what_no_query_takes_is_said_by_load(spark: Any, stage: SourceStage) -> None:
    for options, said in (
        ({"maxOffsetPerTrigger": 5}, r"did you mean maxOffsetsPerTrigger\?"),
        ({"maxOffsetsPerTrigger": True}, "maxOffsetsPerTrigger='true' is not valid"),
    ):
        for reader in (spark.read, spark.readStream):
            with pytest.raises(Exception, match=said):
                reader.format("ottla").options(**stage.options(), **options).load()
