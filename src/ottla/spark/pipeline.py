"""Pipelines: from topics through a function of DataFrames into a topic, each record exactly once."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.config.default_cluster import default_servers
from ottla.errors import ConfigError
from ottla.spark import running
from ottla.spark.formats import Format
from ottla.spark.options import Use, duration_ms, shared_options
from ottla.spark.own_errors import own_place
from ottla.spark.reporting import Progress, progress_of
from ottla.spark.requirement import require_spark
from ottla.spark.session import is_on_this_machine, master_with, require_java, start_session
from ottla.spark.stopping import Stop
from ottla.spark.supervising import (
    DriverLostError,
    Failure,
    Next,
    Pauses,
    PipelineError,
    PipelineTakenOverError,
    judge,
    judge_connection,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger("ottla.spark")

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
_LOOK_SECONDS: Final = 0.1
# All that Spark says of a query when a task has failed, and then the abort.
_UNEXPLAINED: Final = "Writing job failed"
_OUTPUT: Final = ("key", "value", "headers")


@dataclass(frozen=True)
class Pipeline:
    """A stream from `source` through `transform` into the topic `sink`, each record exactly once.

    Pipeline("fraud", source="payments", sink="alerts", transform=lambda df: df.where("…")).run()

    `name` is the pipeline's identity: its transactional id, its consumer group, its checkpoint's folder. Give each
    pipeline its own, and keep it.
    """

    name: str
    source: Source
    """A topic, several, a pattern of names, or a function that makes a streaming DataFrame of a session."""
    sink: str
    transform: Callable[[DataFrame], DataFrame] | None = None
    """Gets the columns of the source and returns at least `value`; `key` and `headers` are written too, no others."""
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
        running.offer(self)

    # What Spark is told

    @property
    def servers(self) -> str:
        """Where the broker is."""
        return running.overrides().bootstrap_servers or self.bootstrap_servers or default_servers()

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
            "maxOffsetsPerTrigger": str(MOST_OFFSETS),
            **self._kafka_options(shared_options(texts(self.kafka), Use.STREAM_READ)),
        }
        options |= subscription(source)
        if self.dead_letter is not None:
            options["includeHeaders"] = "true"
        # Whoever says anything about the sizes of tasks gets just that.
        named = {name.lower() for name in self.source_options}
        if self.is_low_latency and named.isdisjoint(map(str.lower, TASK_SIZE_OPTIONS)):
            options["minRecordsPerPartition"] = str(LOW_LATENCY_TASK_RECORDS)
        return _without(options, self.source_options) | texts(self.source_options)

    def rows(self, spark: SparkSession) -> DataFrame:
        """What is written: key, value, headers and topic."""
        from pyspark.sql import functions as f

        records = self.read(spark)
        if self.values is None:
            return self._written(records).withColumn("topic", f.lit(self.sink))
        from ottla.spark import dead_letters

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
        return named.get("includeheaders", "false").lower() == "true"

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
        from ottla.spark.driver_sink import DriverSink

        return rows.writeStream.foreachBatch(DriverSink(options, rows.schema))

    # Running

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Run until stopped, or until everything is processed with trigger=available-now.

        Failures that may pass begin again; a PipelineError says why it ended otherwise, a ConfigError which option is
        wrong. Ctrl-C and SIGTERM stop it after nothing or a whole micro-batch.
        """
        overrides = running.begun(self)
        settings = {**self.settings, **overrides.settings}
        if overrides.master is not None:
            settings["spark.master"] = overrides.master
        require_spark()
        from ottla.spark import committing, first_look

        checkpoint = self.checkpoint_location(master := master_with(settings))
        clusters = first_look.check_options(self, master)
        require_java()
        if not overrides.goes_on:
            first_look.reach(self, clusters)
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
                committing.forget(self.name)
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


class Supervisor:
    """Keeps the query of a pipeline running."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        report: Callable[[Progress], None],
        stop: Stop,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._report = report
        self._stop = stop
        self._sleep = sleep or stop.sleep
        self._pauses = Pauses()
        self._restarts = 0
        self._seen: tuple[str, int, str] | None = None

    def run(self) -> None:
        """Until the query ends by itself, fails for good, or somebody wants it to stop."""
        while not self._stop.is_wanted:
            failure = self._run_once()
            if failure is None or self._stop.is_wanted:
                return
            if failure.next is Next.LEAVE:
                raise PipelineTakenOverError(failure.reason)
            if failure.next is Next.NEW_DRIVER:
                raise DriverLostError(failure.reason, self._pipeline.max_restarts)
            allowed = self._pipeline.max_restarts
            if failure.next is not Next.RESTART or (
                allowed is not None and self._restarts >= allowed
            ):
                raise PipelineError(f"pipeline {self._pipeline.name} stopped: {failure.reason}")
            self._restarts += 1
            pause = self._pauses.take()
            log.warning(
                "pipeline %s begins again in %.0f s: %s", self._pipeline.name, pause, failure.reason
            )
            self._sleep(pause)

    def _run_once(self) -> Failure | None:
        """What went wrong; None if the query has ended by itself."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        query: StreamingQuery | None = None
        try:
            query = self._pipeline.start(self._spark)
            # Its signature says int, and it takes fractions of a second.
            while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]
                self._look(query)
                if self._stop.notice():
                    query.stop()
            self._look(query)
        except ConnectionError as error:
            return judge_connection(error)
        except (PySparkException, Py4JError) as error:
            if not self._stop.is_wanted:
                log.debug("the query of pipeline %s failed", self._pipeline.name, exc_info=True)
            return judge(type(error).__name__, text_of(error)).at(own_place(error))
        except BaseException as error:
            # An error of the listener, a second Ctrl-C: the query must not go on without its pipeline.
            if query is not None:
                query.stop()
            if isinstance(error, _ReportError):
                raise error.error from None
            raise
        return None

    def _look(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or not self._is_new(found := json.loads(last.json)):
            return
        if self._follows(found):
            self._told(found)
            return
        # Several since the last look. All of them are a hundred long texts, too many to read each time.
        for each in query.recentProgress:
            if self._is_new(found := json.loads(each.json)):
                self._told(found)

    def _is_new(self, found: dict[str, Any]) -> bool:
        seen = self._seen
        return seen is None or seen[0] != found["runId"] or seen[1:] < _place(found)[1:]

    def _follows(self, found: dict[str, Any]) -> bool:
        """Whether nothing can be between what was seen last and this."""
        run, batch, _ = _place(found)
        if self._seen is None or self._seen[0] != run:
            return False
        return batch <= self._seen[1] + 1

    def _told(self, found: dict[str, Any]) -> None:
        self._seen = _place(found)
        progress = progress_of(found)
        if progress.duration_ms:
            self._pauses.reset()
            self._restarts = 0
        try:
            self._report(progress)
        except Exception as error:
            raise _ReportError(error) from error


def text_of(error: Exception) -> str:
    """What an error says; of one that Java raised, what Java says."""
    raised = getattr(error, "java_exception", None)
    try:
        text = str(error) if raised is None else f"{error}\n: {raised.toString()}"
    except Exception:
        # Java is gone, or its error cannot be written.
        return repr(error.args)
    if _UNEXPLAINED in text:
        with suppress(Exception):  # Java is gone: what it said before counts
            cause = getattr(error, "_origin", None) if raised is None else raised
            while cause is not None and (cause.getMessage() or "") in text:
                cause = cause.getCause()
            if cause is not None:
                text += f"\nCaused by: {cause.toString()}"
    return text


def _place(found: dict[str, Any]) -> tuple[str, int, str]:
    """What orders the reports of a query."""
    return found["runId"], found["batchId"], found["timestamp"]


class _ReportError(Exception):
    """Whoever is told of progress failed: that is nobody's network, whatever its class."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error
