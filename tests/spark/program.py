"""A Spark program for tests: reads topics, writes another, and dies or stops where it is told.

The sink's commit runs in a Python process of the driver. At a step that the environment names, that process does what
its deed says, to the driver's JVM and to itself.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType
from tests.spark.sessions import FAST_CHECKPOINTS

from ottla.spark.datasource import OttlaDataSource
from ottla.spark.pipeline.failure_policy import PipelineError
from ottla.spark.pipeline.pipeline import LOW_LATENCY, STANDARD, Pipeline
from ottla.spark.runtime.session import socket_settings
from ottla.spark.sink import commit_session
from ottla.spark.sink.commit_session import CommitPoint
from ottla.spark.sink.low_latency_engine import DriverSink

CRASH = "OTTLA_TEST_CRASH"
FAILED = 5
LEFT = 6
COPIED = "concat_ws(' ', topic, partition, offset, cast(value as string)) value"

# What becomes of the JVM, and what of the process that commits.
DEEDS: dict[str, tuple[int | None, int | None]] = {
    "die": (signal.SIGKILL, signal.SIGKILL),
    "go on": (signal.SIGKILL, None),
    "sleep": (signal.SIGKILL, signal.SIGSTOP),
    "halt": (None, signal.SIGSTOP),
    "freeze": (signal.SIGSTOP, signal.SIGSTOP),
}


class CrashingSource(OttlaDataSource):
    """The same, with steps at which something happens."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        commit_session.listener = _listener()
        return super().streamWriter(schema, overwrite)


def _listener() -> Callable[[CommitPoint], None] | None:
    if CRASH not in os.environ:
        return None
    point, visit, deed, place = json.loads(os.environ[CRASH])
    folder = Path(place)

    def listen(reached: CommitPoint) -> None:
        if reached.name != point:
            return
        # In a file, because the process of a later micro-batch may be another one.
        with (folder / "visits").open("a") as file:
            file.write("x")
        if len((folder / "visits").read_text()) != visit:
            return
        of_driver, of_us = DEEDS[deed]
        driver = driver_pid()
        # When the JVM is gone, its daemon hangs up on its workers, and the kernel wakes those that are stopped: an
        # orphaned process group gets SIGHUP and SIGCONT. A zombie is one that is in no such group any more.
        # Where the driver itself commits, nobody hangs up on it.
        if threading.current_thread() is threading.main_thread():
            os.setsid()
        if of_driver is not None:
            os.kill(driver, of_driver)
        written = folder / "written"
        written.write_text(json.dumps({"driver": driver, "committer": os.getpid()}))
        written.rename(folder / "reached")
        if of_us is not None:
            os.kill(os.getpid(), of_us)

    return listen


def driver_pid() -> int:
    """The JVM: the first Java process above this one, or the one that it has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            front, _, back = (folder / "stat").read_text().rpartition(")")
        except OSError:
            continue
        if int(back.split()[1]) == os.getpid() and front.endswith("(java"):
            return int(folder.name)
    pid = os.getppid()
    while pid > 1:
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    raise AssertionError("no JVM above")


def session(settings: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.master(settings.get("master", "local[2]"))
    for name, value in {
        **FAST_CHECKPOINTS,
        **socket_settings(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # The checker wants to see all plans.
        "spark.sql.streaming.minBatchesToRetain": "10000",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **settings.get("conf", {}),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(CrashingSource)
    return spark


# Queries


def read(spark: SparkSession, settings: dict[str, Any], topic: str) -> DataFrame:
    reader = spark.readStream.format("ottla")
    for name, value in {
        "kafka.bootstrap.servers": settings["source_servers"],
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "90",
        "pipeline": settings["pipeline"],
        **settings.get("read", {}),
    }.items():
        reader = reader.option(name, value)
    return reader.load()


def copied(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    """All sources in one."""
    frames = [read(spark, settings, topic) for topic in settings["sources"]]
    both = frames[0]
    for each in frames[1:]:
        both = both.union(each)
    return both.selectExpr("key", COPIED)


def counted(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    numbers = read(spark, settings, settings["sources"][0]).selectExpr(
        "cast(cast(value as string) as int) % 7 k"
    )
    return numbers.groupBy("k").count().selectExpr("concat_ws(' ', k, count) value")


def distinct(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    numbers = read(spark, settings, settings["sources"][0]).selectExpr(
        "cast(cast(cast(value as string) as int) % 50 as string) value"
    )
    return numbers.dropDuplicates(["value"])


def joined(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    left, right = (read(spark, settings, topic) for topic in settings["sources"])
    left, right = left.alias("l"), right.alias("r")
    both = left.join(right, f.expr("l.value = r.value"))
    return both.selectExpr("concat_ws(' ', l.offset, r.offset, cast(l.value as string)) value")


def rated(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "20")
    if "rows_per_second" in settings:
        rate = spark.readStream.format("rate").option("rowsPerSecond", settings["rows_per_second"])
    return rate.load().selectExpr("cast(value as string) value")


def failing(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    """As `copied`; the first attempts of tasks fail in the middle, some by an error, some by the process's death."""
    flags = Path(settings["flags"])

    def meet(value: str) -> str:
        context = TaskContext.get()
        assert context is not None
        number = int(value.split()[-1])
        batch = context.getLocalProperty("streaming.sql.batchId")
        name = f"{batch}-{context.partitionId()}-{context.attemptNumber()}"
        if number % 25 == 24 and context.attemptNumber() < 2 and not (flags / name).exists():
            (flags / name).touch()
            if number % 2:
                os._exit(3)
            raise RuntimeError("the task fails in the middle")
        return value

    # Not through Arrow, for which Spark wants pandas.
    met = f.udf(meet, "string", useArrow=False)
    return copied(spark, settings).select("key", met("value").alias("value"))


def doubled(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    """As `copied`; two attempts of each second task wait for each other: Spark begins slow ones once more."""
    flags = Path(settings["flags"])

    def meet(value: str) -> str:
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        (flags / f"{batch}-{context.partitionId()}-{context.attemptNumber()}").touch()
        other = flags / f"{batch}-1-{1 - context.attemptNumber()}"
        deadline = time.monotonic() + 60
        while context.partitionId() == 1 and not other.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return value

    met = f.udf(meet, "string", useArrow=False)
    return copied(spark, settings).select("key", met("value").alias("value"))


KINDS = {
    "copied": copied,
    "counted": counted,
    "distinct": distinct,
    "joined": joined,
    "rated": rated,
    "failing": failing,
    "doubled": doubled,
}
TRIGGERS: dict[str, dict[str, Any]] = {
    "available-now": {"availableNow": True},
    "always": {"processingTime": "100 milliseconds"},
    "continuous": {"continuous": "1 second"},
}


def writer_of(rows: DataFrame, settings: dict[str, Any]) -> DataStreamWriter:
    options = {
        "kafka.bootstrap.servers": settings["servers"],
        "topic": settings["sink"],
        "pipeline": settings["pipeline"],
        **settings.get("write", {}),
    }
    if settings.get("checkpoint"):
        options["checkpointLocation"] = settings["checkpoint"]
    if settings.get("engine") == LOW_LATENCY:
        commit_session.listener = _listener()
        writer = rows.writeStream.foreachBatch(DriverSink(options, rows.schema))
    else:
        writer = rows.writeStream.format("ottla")
    return writer.options(**options)


def run_query(spark: SparkSession, settings: dict[str, Any]) -> int:
    kind = settings.get("kind", "copied")
    writer = writer_of(KINDS[kind](spark, settings), settings)
    if settings.get("name"):
        writer = writer.queryName(settings["name"])
    if kind == "counted":
        writer = writer.outputMode("complete")
    writer = writer.trigger(**TRIGGERS[settings.get("trigger", "available-now")])
    try:
        query = writer.start()
        while not query.awaitTermination(1):
            if Path(settings["stop"]).exists():
                query.stop()
                break
    except Exception as error:
        print(f"failed: {error}", flush=True)
        return FAILED
    return 0


def run_supervised(spark: SparkSession, settings: dict[str, Any]) -> int:
    """As a pipeline, which begins again after failures that may pass."""
    logging.basicConfig(stream=sys.stdout, format="log: %(message)s")
    pipeline = Pipeline(
        settings["pipeline"],
        source=settings["sources"],
        sink=settings["sink"],
        transform=lambda frame: frame.selectExpr("key", COPIED),
        trigger="100 ms" if settings.get("trigger") == "always" else "available-now",
        bootstrap_servers=settings["servers"],
        checkpoint=settings["checkpoint"],
        source_options={"maxOffsetsPerTrigger": "90", **settings.get("read", {})},
        sink_options=settings.get("write", {}),
        engine=settings.get("engine", STANDARD),
    )
    threading.Thread(target=_stop_when, args=[Path(settings["stop"])], daemon=True).start()
    try:
        pipeline.run(lambda told: print(f"batch {told.batch} {told.duration_ms}", flush=True))
    except KeyboardInterrupt:
        return 0
    except PipelineError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return LEFT
    return 0


def _stop_when(file: Path) -> None:
    while not file.exists():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    settings = json.loads(sys.argv[1])
    spark = session(settings)
    print("started", flush=True)
    code = (
        run_supervised(spark, settings) if "supervised" in settings else run_query(spark, settings)
    )
    print(f"ended with {code}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
