"""Pipelines: from topics through a function of DataFrames into a topic, each record exactly once."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.config.default_cluster import default_servers
from ottla.errors import ConfigError
from ottla.spark.options import Use, duration_ms, shared_options
from ottla.spark.pipeline import run_overrides
from ottla.spark.pipeline.formats import Format
from ottla.spark.pipeline.progress_report import Progress
from ottla.spark.pipeline.stop_signals import Stop
from ottla.spark.pipeline.supervisor import Supervisor
from ottla.spark.runtime.requirement import require_spark
from ottla.spark.runtime.session import (
    is_on_this_machine,
    master_with,
    refuse_connect,
    refuse_connect_session,
    require_java,
    start_session,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Value = str | float | bool
Source = str | Sequence[str] | re.Pattern[str] | Callable[["SparkSession"], "DataFrame"]

AVAILABLE_NOW: Final = "available-now"
MOST_OFFSETS: Final = 1_000_000
STANDARD: Final = "standard"
LOW_LATENCY: Final = "low-latency"
# A task costs as much as reading thousands of rows: those of a small micro-batch are read in one.
LOW_LATENCY_TASK_RECORDS: Final = 1000
TASK_SIZE_OPTIONS: Final = ("minPartitions", "minRecordsPerPartition", "maxRecordsPerPartition")
OUTPUT_MODES: Final = ("append", "complete")
CHECKPOINTS: Final = "ottla-checkpoints"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_OUTPUT: Final = ("key", "value", "headers")


@dataclass(frozen=True)
class Pipeline:
    """A stream from `source` through `transform` into the topic `sink`, each record exactly once.

        Pipeline("fraud", source="payments", sink="alerts", transform=lambda df: df.where("…")).run()

    `name` is the pipeline's identity: in its transactional id, its consumer group, its checkpoint's folder. Give each
    pipeline its own, and keep it.
    """

    name: str
    source: Source
    """A topic, several, a pattern of names, or a function that makes a streaming DataFrame of a session."""
    sink: str
    transform: Callable[[DataFrame], DataFrame] | None = None
    """Gets the columns of the source, `headers` among them, and returns at least `value`. `key` and `headers` are
    written too if they are there, no others."""
    trigger: str = "0 seconds"
    """The least time between micro-batches, or available-now: process what is there, and end."""
    values: Format | None = None
    """What the source's values are; then the column `value` is what they say. Without it, bytes."""
    sink_values: Format | None = None
    """What values are written as; without it, as `values`."""
    dead_letter: str | None = None
    """The topic of records that cannot be read; without one, such a record stops the pipeline."""
    bootstrap_servers: str | None = None
    """Without it, -b of `ottla pipeline run`, then OTTLA_BOOTSTRAP_SERVER, then 127.0.0.1:9092."""
    kafka: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """Options of Kafka's clients, by Kafka's names: for source and sink, or whichever has them."""
    source_options: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """Without maxOffsetsPerTrigger it is a million: a micro-batch has to fit into the driver's memory."""
    sink_options: Mapping[str, Value] = field(default_factory=dict, repr=False)
    checkpoint: str | None = None
    """Without it, ottla-checkpoints/NAME in the working folder."""
    output_mode: str = "append"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the Spark session; those of `ottla pipeline run` win."""
    engine: str = STANDARD
    """standard, or low-latency: the driver itself encodes and commits, and small partitions share the tasks that read
    them (minRecordsPerPartition=1000), which suits small micro-batches."""
    max_restarts: int | None = None
    """How often to begin again after failures that may pass, without a micro-batch in between; None is always.

    A broker that does not answer before the first start, for a minute, ends it."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} is no name of a pipeline: use up to 200 letters, digits, dots, _ and -"
            )
        if self.trigger != AVAILABLE_NOW:
            trigger_ms(self.trigger)
        if self.engine not in (STANDARD, LOW_LATENCY):
            raise ConfigError(
                f"engine={self.engine!r} is not valid: it is {STANDARD} or {LOW_LATENCY}"
            )
        if self.dead_letter is not None and self.values is None:
            raise ConfigError(
                "dead_letter is for values that cannot be read: give values too, as in Json(…)"
            )
        if self.values is not None and callable(self.source):
            raise ConfigError(
                "values is for topics, and the source is a function: read its values there, and give sink_values"
            )
        if self.output_mode not in OUTPUT_MODES:
            raise ConfigError(
                f"output_mode={self.output_mode!r} is not one of {', '.join(OUTPUT_MODES)}: Spark offers update not to "
                "sinks that are written in Python; aggregate with a watermark and append, or write complete results"
            )
        if "group.id" in map(str.lower, self.kafka):
            raise ConfigError("a pipeline's group has its name: leave group.id out")
        if self.dead_letter == self.sink:
            raise ConfigError("dead_letter and sink are the same topic: give them two")
        run_overrides.offer(self)

    # What Spark is told

    @property
    def servers(self) -> str:
        """Where the broker is."""
        return (
            run_overrides.overrides().bootstrap_servers
            or self.bootstrap_servers
            or default_servers()
        )

    @property
    def is_low_latency(self) -> bool:
        """Whether the driver itself encodes and commits."""
        return self.engine == LOW_LATENCY

    def checkpoint_location(self, master: str) -> str:
        """Where Spark keeps its progress; on a cluster it has to be said."""
        if self.checkpoint is not None:
            return self.checkpoint
        if not is_on_this_machine(master):
            raise ConfigError(
                f"checkpoint is missing: on {master} it has to be a place that all machines see, as in "
                "s3a://bucket/checkpoints/fraud"
            )
        return os.path.join(os.path.abspath(CHECKPOINTS), self.name)

    def read(self, spark: SparkSession) -> DataFrame:
        """The source as it comes."""
        if callable(self.source):
            return self.source(spark)
        options = self.read_options(self.source)
        return spark.readStream.format("ottla").options(**options).load()

    def read_options(self, source: str | Sequence[str] | re.Pattern[str]) -> dict[str, str]:
        """The options of a source of topics; what the user says wins."""
        options = {
            "startingOffsets": "earliest",
            "pipeline": self.name,
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(MOST_OFFSETS),
            **self._kafka_options(shared_options(texts(self.kafka), Use.STREAM_READ)),
        }
        options |= subscription(source)
        # Whoever says anything about the sizes of tasks gets just that.
        named = {name.lower() for name in self.source_options}
        if self.is_low_latency and named.isdisjoint(map(str.lower, TASK_SIZE_OPTIONS)):
            options["minRecordsPerPartition"] = str(LOW_LATENCY_TASK_RECORDS)
        wanted = texts(self.source_options)
        if self.dead_letter is not None:
            # Dead letters keep theirs; `rows` drops those of the others if the user wants none.
            wanted = _without(wanted, {"includeHeaders": True})
        return _without(options, wanted) | wanted

    def rows(self, spark: SparkSession) -> DataFrame:
        """What is written: key, value, headers and topic."""
        from pyspark.sql import functions as f

        records = self.read(spark)
        if self.values is None:
            return self._written(records).withColumn("topic", f.lit(self.sink))
        from ottla.spark.pipeline import dead_letters

        both = dead_letters.parsed(records, self.values)
        if self.dead_letter is None:
            return self._written(dead_letters.all_readable(both)).withColumn(
                "topic", f.lit(self.sink)
            )
        good = dead_letters.readable(both)
        if not self._wants_headers():
            good = good.drop("headers")
        rows = self._written(good).withColumn("topic", f.lit(self.sink))
        bad = dead_letters.unreadable(both, self.dead_letter)
        return rows.unionByName(bad, allowMissingColumns=True)

    def _wants_headers(self) -> bool:
        named = {name.lower(): value for name, value in texts(self.source_options).items()}
        return named.get("includeheaders", "true").strip().lower() != "false"

    def _written(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f
        from pyspark.sql.types import BinaryType, NullType, StringType

        rows = records if self.transform is None else self.transform(records)
        if not hasattr(rows, "columns"):
            raise ConfigError(
                f"transform of pipeline {self.name} returned {type(rows).__name__} and not a DataFrame: is a return "
                "missing?"
            )
        if "value" not in rows.columns:
            raise ConfigError(
                f"transform left no column 'value', only {rows.columns}: make one, as in "
                "df.select('key', struct('customer', 'total').alias('value'))"
            )
        rows = rows.select(*(name for name in _OUTPUT if name in rows.columns))
        kind = rows.schema["value"].dataType
        if isinstance(kind, BinaryType | StringType | NullType):
            return rows.withColumn("value", f.col("value").cast("binary"))
        values = self.sink_values or self.values
        if values is None:
            raise ConfigError(
                f"the column 'value' is {kind.simpleString()}, not bytes or text: give sink_values, as in Json(…)"
            )
        return rows.withColumn("value", values.encoded(f.col("value"), kind))

    def _kafka_options(self, kafka: Mapping[str, str]) -> dict[str, str]:
        options = {f"kafka.{name}": value for name, value in kafka.items()}
        return {**options, "kafka.bootstrap.servers": self.servers}

    def written_with(self, master: str) -> dict[str, str]:
        """The options of the sink."""
        # Where a function makes the source, nobody else could use what is not the sink's.
        kafka = texts(self.kafka)
        if not callable(self.source):
            kafka = shared_options(kafka, Use.STREAM_WRITE)
        options = {
            **self._kafka_options(kafka),
            "pipeline": self.name,
            "markerTopic": self.sink,
            "checkpointLocation": self.checkpoint_location(master),
        }
        options = _without(options, self.sink_options) | texts(self.sink_options)
        if self.dead_letter is not None:
            pinned = next(
                (name for name in options if name.lower() == "pinnedtopics"), "pinnedTopics"
            )
            options[pinned] = ",".join(filter(None, [options.get(pinned), self.dead_letter]))
        return options

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Begin, or go on; the caller looks after the query."""
        refuse_connect_session(spark)
        options = self.written_with(str(spark.sparkContext.master))
        # Makes the session that of this thread: without one, Spark knows no sinks that are written in Python.
        spark.createDataFrame([], "nothing INT")
        writer = self._writer(self.rows(spark), options).queryName(self.name)
        writer = writer.options(**options).outputMode(self.output_mode)
        if self.trigger == AVAILABLE_NOW:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{trigger_ms(self.trigger)} milliseconds").start()

    def _writer(self, rows: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
        if not self.is_low_latency:
            return rows.writeStream.format("ottla")
        from ottla.spark.sink.low_latency_engine import DriverSink

        sink = DriverSink(options, rows.schema, source_is_ours=not callable(self.source))
        return rows.writeStream.foreachBatch(sink)

    # Running

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Run until stopped, or until everything is processed with trigger=available-now.

        Failures that may pass begin again; a PipelineError says why it ended otherwise, a ConfigError which option is
        wrong. Ctrl-C and SIGTERM stop it after nothing or a whole micro-batch.
        """
        overrides = run_overrides.begun(self)
        settings = {**self.settings, **overrides.settings}
        if overrides.master is not None:
            settings["spark.master"] = overrides.master
        require_spark()
        refuse_connect(settings)
        from ottla.spark.pipeline import preflight
        from ottla.spark.sink import micro_batch_commit

        checkpoint = self.checkpoint_location(master := master_with(settings))
        clusters = preflight.check_options(self, master)
        require_java()
        if not overrides.goes_on:
            preflight.reach(self, clusters)
            preflight.check_topics(self, master)
        start = partial(start_session, self.name, checkpoint=checkpoint, settings=settings)
        with Stop(partial(overrides.tell, "stopping; a second signal does not wait")) as stop:
            began = time.monotonic()
            try:
                # Spark has a handler of its own for Ctrl-C, which talks to Java whatever else does so.
                spark = stop.shield(start)
            except Exception:
                if not stop.is_wanted:
                    raise
                # The signal was for all processes of the group, and so Java is gone: that was wanted.
                stop.obey()
                return
            if not stop.is_wanted:
                overrides.tell(f"Spark runs after {time.monotonic() - began:.0f} s")
            try:
                Supervisor(self, spark, on_progress or overrides.on_progress or _ignore, stop).run()
            finally:
                # Those of the low-latency engine are this process's.
                micro_batch_commit.forget(self.name)
            stop.obey()


def trigger_ms(text: str) -> int:
    """The least time between micro-batches."""
    try:
        if text.strip().isdigit():
            raise ValueError("a number without a unit says nothing")
        return duration_ms(text)
    except ValueError:
        raise ConfigError(
            f"trigger={text!r} is not valid: give a time, as in '500 ms' or '10 seconds', or '{AVAILABLE_NOW}'. "
            "Continuous and real-time triggers have no micro-batches to commit"
        ) from None


def subscription(source: str | Sequence[str] | re.Pattern[str]) -> dict[str, str]:
    """The option that names topics."""
    if isinstance(source, re.Pattern):
        return {"subscribePattern": source.pattern}
    topics = [source] if isinstance(source, str) else list(source)
    if not topics or any(not topic.strip() for topic in topics):
        raise ConfigError("source names no topic")
    return {"subscribe": ",".join(topics)}


def texts(options: Mapping[str, Value]) -> dict[str, str]:
    """Options as Spark writes them, which people give as numbers and truths too."""
    for name, value in options.items():
        if value is None:
            raise ConfigError(f"{name} is None: leave it out, or give a value")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def _without(options: Mapping[str, str], others: Mapping[str, Value]) -> dict[str, str]:
    """Those that the others do not name; names of Spark's options ignore case."""
    named = {name.lower() for name in others}
    return {name: value for name, value in options.items() if name.lower() not in named}


def _ignore(progress: Progress) -> None:
    """Nobody wants to know."""
