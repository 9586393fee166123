"""The same pipeline with different sources and sinks, in one Spark session on one broker."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.comparison import say
from benchmarks.frames import RefusedError
from benchmarks.kafka_jars import UnavailableError, jars_of_only
from benchmarks.measure import percentiles_ms
from benchmarks.peers import PARTITIONS_PER_TOPIC, Ottla
from benchmarks.process_tree import ProcessTree

import ottla
from ottla.admin import NewTopic
from ottla.spark.pipeline.query_options import LOW_LATENCY_TASK_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# The newest connector of Maven Central, and the token provider without which it does not load (no token is used here).
CONNECTOR_VERSION = "4.2.0"
CONNECTOR = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13": CONNECTOR_VERSION,
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "org.apache.kafka:kafka-clients": "3.9.2",
    "org.apache.commons:commons-pool2": "2.13.1",
}

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
SPARK_CONNECTOR = "spark-sql-kafka"
LOW_LATENCY = "exactly-once, low-latency"
VARIANTS = (EXACTLY_ONCE, LOW_LATENCY, AT_LEAST_ONCE, SPARK_CONNECTOR)

VALUE_BYTES = 100
KEYS = [b"%08d" % number for number in range(1000)]
# Micro-batches at the start of a query that do not count: workers start, and Java compiles.
WARM_UP_BATCHES = 2
LOOK_SECONDS = 0.05
WAIT_SECONDS = 300.0
ROWS_PER_TICK = 100
TICK_SECONDS = 0.1
WARM_UP_SECONDS = 3.0

_numbers = count()


@dataclass(frozen=True)
class Run:
    """What one query did."""

    rows: int
    seconds: float
    micro_batches: int
    batch_ms: float
    cpu_seconds: dict[str, float]
    latency_ms: dict[str, float] = field(default_factory=dict)
    phases_ms: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    def cpu_us_per_row(self, kind: str | None = None) -> float:
        used = sum(self.cpu_seconds.values()) if kind is None else self.cpu_seconds.get(kind, 0.0)
        return used * 1e6 / max(1, self.rows)

    @property
    def cpu_ms_per_batch(self) -> float:
        return sum(self.cpu_seconds.values()) * 1e3 / max(1, self.micro_batches)


class Stage:
    """A broker, a Spark session, and topics with something to read."""

    def __init__(self, peer: Ottla, spark: SparkSession) -> None:
        self.peer = peer
        self.servers = peer.bootstrap_server
        self.spark = spark
        self.tree = ProcessTree(os.getpid(), self._kind_of)

    def _kind_of(self, pid: int, name: str) -> str:
        if pid == self.peer.pid:
            return "broker"
        return "java" if name == "java" else "python"

    def create_topic(self, part: str) -> str:
        topic = f"spark-{part}-{next(_numbers)}"
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS_PER_TOPIC)])
        return topic

    def delete_topic(self, topic: str) -> None:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.delete_topics([topic])

    def filled_topic(self, rows: int) -> str:
        topic = self.create_topic("backlog")
        value = b"v" * VALUE_BYTES
        with ottla.Producer(bootstrap_servers=self.servers, linger_ms=5) as producer:
            for number in range(rows):
                producer.send(topic, value, key=KEYS[number % len(KEYS)])
        return topic

    def start(
        self, variant: str, source: str, sink: str, starting: str, limit: int | None
    ) -> StreamingQuery:
        """The pipeline: one byte less of every value."""
        name = "kafka" if variant == SPARK_CONNECTOR else "ottla"
        reader = self.spark.readStream.format(name).option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", source).option("startingOffsets", starting)
        reader = reader.option("kafka.isolation.level", "read_committed")
        if limit is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(limit))
        if variant == LOW_LATENCY:
            reader = reader.option("minRecordsPerPartition", str(LOW_LATENCY_TASK_RECORDS))
        rows = reader.load().selectExpr("key", "substring(value, 2) AS value")
        options = {
            "kafka.bootstrap.servers": self.servers,
            "topic": sink,
            "checkpointLocation": tempfile.mkdtemp(dir=self.peer.folder),
        }
        if name == "ottla":
            delivery = AT_LEAST_ONCE if variant == AT_LEAST_ONCE else EXACTLY_ONCE
            options |= {"pipeline": sink, "delivery": delivery}
        if variant == LOW_LATENCY:
            from ottla.spark.sink.low_latency_engine import DriverSink

            writer = rows.writeStream.foreachBatch(DriverSink(options, rows.schema))
        else:
            writer = rows.writeStream.format(name)
        writer = writer.options(**options)
        if limit is None:
            return writer.trigger(processingTime="0 seconds").start()
        return writer.trigger(availableNow=True).start()

    def throughput(self, variant: str, source: str, rows: int, limit: int) -> Run:
        """Read a backlog to its end, micro-batch after micro-batch."""
        sink = self.create_topic("out")
        query = self.start(variant, source, sink, "earliest", limit)
        before: dict[str, float] = {}
        deadline = time.monotonic() + WAIT_SECONDS
        while query.isActive and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            self.tree.look()
            last = query.lastProgress
            if not before and last is not None and last["batchId"] >= WARM_UP_BATCHES - 1:
                before = self.tree.seconds()
        cpu = _difference(self.tree.seconds(), before)
        finished = _finished(query)
        self._check(sink, rows)
        self.delete_topic(sink)
        batches = [each for each in finished if each["batchId"] >= WARM_UP_BATCHES]
        seconds = _end_of(batches[-1]) - _start_of(batches[0])
        return _run(batches, seconds, cpu)

    def latency(self, variant: str, seconds: float) -> Run:
        """A few rows every now and then, and when a reader has them."""
        source, sink = self.create_topic("in"), self.create_topic("out")
        query = self.start(variant, source, sink, "latest", None)
        meter = Meter(self.servers, source, sink)
        with meter.running():
            # The first micro-batch starts processes.
            while not meter.measure(1.0):
                _check_running(query)
            meter.measure(WARM_UP_SECONDS)
            self.tree.look()
            before, began = self.tree.seconds(), time.time()
            waited = meter.measure(seconds, self.tree.look)
            self.tree.look()
            cpu = _difference(self.tree.seconds(), before)
        finished = _finished(query)
        query.stop()
        batches = [each for each in finished if _start_of(each) >= began and each["numInputRows"]]
        for topic in (source, sink):
            self.delete_topic(topic)
        run = _run(batches, seconds, cpu)
        return Run(**{**run.__dict__, "latency_ms": percentiles_ms(waited)})

    def _check(self, topic: str, rows: int) -> None:
        """The output has every row; markers of transactions take offsets too."""
        options = {"bootstrap.servers": self.servers, "isolation.level": "read_committed"}
        with ottla.Consumer(options) as consumer:
            places = [(topic, number) for number in range(PARTITIONS_PER_TOPIC)]
            kept = sum(consumer.end_offsets(places).values())
        if kept < rows:
            raise RefusedError(f"{rows} rows went in, and {topic} ends at {kept}")


class Meter:
    """Sends rows that say when they were sent, and reads them at the other end."""

    def __init__(self, servers: str, source: str, sink: str) -> None:
        self._servers, self._source, self._sink = servers, source, sink
        self._waited: list[float] = []
        self._is_over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        reading = threading.Thread(target=self._read, daemon=True)
        reading.start()
        try:
            yield
        finally:
            self._is_over.set()
            reading.join(WAIT_SECONDS)

    def measure(self, seconds: float, look: Any = lambda: None) -> list[float]:
        """Seconds from sending to reading, of all rows that were read meanwhile."""
        self._waited = []
        ticks = round(seconds / TICK_SECONDS)
        with ottla.Producer(bootstrap_servers=self._servers, linger_ms=0) as producer:
            began = time.monotonic()
            for tick in range(ticks):
                time.sleep(max(0.0, began + tick * TICK_SECONDS - time.monotonic()))
                stamp = b"v%020d" % time.monotonic_ns()
                for number in range(ROWS_PER_TICK):
                    value = stamp.ljust(VALUE_BYTES, b"v")
                    producer.send(self._source, value, key=KEYS[number])
                if tick % 10 == 0:
                    look()
        return self._waited

    def _read(self) -> None:
        options = {
            "bootstrap.servers": self._servers,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        with ottla.Consumer(options) as consumer:
            consumer.assign([(self._sink, number) for number in range(PARTITIONS_PER_TOPIC)])
            while not self._is_over.is_set():
                for record in consumer.poll(0.1):
                    now = time.monotonic_ns()
                    self._waited.append((now - int(record.value[:20])) / 1e9)


def _check_running(query: StreamingQuery) -> None:
    if not query.isActive:
        raise RefusedError(f"the query ended: {query.exception()}")


def _finished(query: StreamingQuery) -> list[dict[str, Any]]:
    """What the micro-batches of a query report."""
    failure = query.exception()
    if failure is not None:
        raise RefusedError(f"the query failed: {failure}")
    return [json.loads(each.json) for each in query.recentProgress]


def _difference(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {kind: used - before.get(kind, 0.0) for kind, used in after.items()}


def _start_of(progress: dict[str, Any]) -> float:
    from datetime import datetime

    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def _end_of(progress: dict[str, Any]) -> float:
    took_ms: int = progress["durationMs"]["triggerExecution"]
    return _start_of(progress) + took_ms / 1000


def _run(batches: Sequence[dict[str, Any]], seconds: float, cpu: dict[str, float]) -> Run:
    phases = {
        name: median(each["durationMs"].get(name, 0) for each in batches)
        for name in batches[0]["durationMs"]
    }
    return Run(
        rows=sum(each["numInputRows"] for each in batches),
        seconds=seconds,
        micro_batches=len(batches),
        batch_ms=phases["triggerExecution"],
        cpu_seconds=cpu,
        phases_ms=phases,
    )


def connector_jars() -> tuple[list[Path], str | None]:
    """The jars of Spark's own connector, or why they are not there."""
    try:
        folder = jars_of_only(f"spark-sql-kafka-{CONNECTOR_VERSION}", CONNECTOR)
    except UnavailableError as error:
        return [], str(error)
    return sorted(folder.glob("*.jar")), None


@contextmanager
def staged() -> Iterator[tuple[Stage, dict[str, str]]]:
    """A broker and a session with the settings of `ottla pipeline run`; and who is left out, and why."""
    from ottla.spark import start_session

    jars, reason = connector_jars()
    settings = {"spark.driver.memory": "4g"}
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    peer = Ottla()
    say("the broker and Spark start")
    peer.start()
    try:
        spark = start_session("benchmark", settings=settings)
        try:
            # Makes the session that of this thread.
            spark.createDataFrame([], "nothing INT")
            # A query that is stopped within a micro-batch says so at length.
            spark.sparkContext.setLogLevel("OFF")
            yield Stage(peer, spark), {} if reason is None else {SPARK_CONNECTOR: reason}
        finally:
            spark.stop()
    finally:
        peer.stop()
