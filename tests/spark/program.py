"""A Spark program for tests: reads a topic, writes another, and dies where it is told.

The sink's commit runs in a Python process of the driver. At a step that the environment names, that process kills the
driver's JVM, and dies too or goes on as a zombie.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType
from tests.spark.sessions import FAST_CHECKPOINTS

from ottla.spark import committing
from ottla.spark.committing import CommitPoint
from ottla.spark.datasource import OttlaDataSource

CRASH = "OTTLA_TEST_CRASH"


class CrashingSource(OttlaDataSource):
    """The same, with steps at which the driver dies."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        committing.listener = _listener()
        return super().streamWriter(schema, overwrite)


def _listener() -> Any:
    if CRASH not in os.environ:
        return None
    point, visit, deed, folder = json.loads(os.environ[CRASH])
    visits = Path(folder) / "visits"

    def listen(reached: CommitPoint) -> None:
        if reached.name != point:
            return
        # In a file, because the process of a later micro-batch may be another one.
        with visits.open("a") as file:
            file.write("x")
        if len(visits.read_text()) != visit:
            return
        os.kill(driver_pid(), signal.SIGKILL)
        (Path(folder) / "died").touch()
        if deed == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        (Path(folder) / "woke").touch()

    return listen


def driver_pid() -> int:
    """The JVM: the first Java process above this one."""
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
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **settings.get("conf", {}),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(CrashingSource)
    return spark


def source(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    if settings.get("kind") == "rate":
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "20")
        return rate.load().selectExpr("cast(value as string) value")
    reader = spark.readStream.format("ottla")
    for name, value in {
        "kafka.bootstrap.servers": settings["servers"],
        "subscribe": settings["source"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "60",
        **settings.get("read", {}),
    }.items():
        reader = reader.option(name, value)
    return reader.load()


def transformed(frame: DataFrame, settings: dict[str, Any]) -> DataFrame:
    if settings.get("kind") == "stateful":
        counts = frame.selectExpr("cast(cast(value as string) as int) % 7 k").groupBy("k").count()
        return counts.selectExpr("cast(k as string) key", "cast(count as string) value")
    if settings.get("kind") == "rate":
        return frame
    return frame.selectExpr("key", "concat('0 ', cast(value as string)) value")


def main() -> int:
    settings = json.loads(sys.argv[1])
    spark = session(settings)
    writer = transformed(source(spark, settings), settings).writeStream.format("ottla")
    for name, value in {
        "kafka.bootstrap.servers": settings["servers"],
        "topic": settings["sink"],
        "pipeline": settings["pipeline"],
        **settings.get("write", {}),
    }.items():
        writer = writer.option(name, value)
    if settings.get("checkpoint"):
        writer = writer.option("checkpointLocation", settings["checkpoint"])
    if settings.get("name"):
        writer = writer.queryName(settings["name"])
    if settings.get("kind") == "stateful":
        writer = writer.outputMode("complete")
    if settings.get("trigger") == "continuous":
        writer = writer.trigger(continuous="1 second")
    elif settings.get("kind") == "rate":
        writer = writer.trigger(processingTime="200 milliseconds")
    else:
        writer = writer.trigger(availableNow=True)
    try:
        query = writer.start()
        if settings.get("seconds"):
            deadline = time.monotonic() + settings["seconds"]
            while time.monotonic() < deadline and query.isActive:
                time.sleep(0.1)
            query.stop()
        else:
            query.awaitTermination()
    except Exception as error:
        print(f"failed: {error}", flush=True)
        return 5
    if query.exception() is not None:
        print(f"failed: {query.exception()}", flush=True)
        return 5
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
