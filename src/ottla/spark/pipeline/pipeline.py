"""Pipelines: from topics through a function of DataFrames into a topic, each record exactly once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.config.default_cluster import default_servers
from ottla.errors import ConfigError
from ottla.spark.option_parsers import duration_ms
from ottla.spark.pipeline import run_overrides
from ottla.spark.pipeline.formats import Format
from ottla.spark.pipeline.progress_report import Progress
from ottla.spark.pipeline.query_options import Value, checkpoint_location, sink_options
from ottla.spark.pipeline.stop_signals import Stop
from ottla.spark.pipeline.supervisor import Supervisor
from ottla.spark.runtime.requirement import require_spark
from ottla.spark.runtime.session import (
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

Source = str | Sequence[str] | re.Pattern[str] | Callable[["SparkSession"], "DataFrame"]

AVAILABLE_NOW: Final = "available-now"
STANDARD: Final = "standard"
LOW_LATENCY: Final = "low-latency"
OUTPUT_MODES: Final = ("append", "complete")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True)
class Pipeline:
    """A stream from `source` through `transform` into the topic `sink`, each record exactly once.

        Pipeline("fraud", source="payments", sink="alerts", transform=lambda df: df.where("…")).run()

    `name` is the pipeline's identity: in its transactional id, its consumer group, its checkpoint's folder. Give each
    pipeline its own, and keep it.
    """

    name: str
    source: Source
    """A topic, several topics, a pattern of names, or a function from a session to a streaming DataFrame."""
    sink: str
    transform: Callable[[DataFrame], DataFrame] | None = None
    """Gets the columns of the source, with `headers`, and returns at least `value`. Of its columns `key`, `value` and
    `headers` are written."""
    trigger: str = "0 seconds"
    """The minimum time between micro-batches, or available-now: process the records that exist, and end."""
    values: Format | None = None
    """The format of the source's values: the column `value` is then parsed. Without it, `value` is bytes."""
    sink_values: Format | None = None
    """The format of the values that are written; without it, that of `values`."""
    dead_letter: str | None = None
    """The topic for records that cannot be parsed; without one, such a record stops the pipeline."""
    bootstrap_servers: str | None = None
    """Without it, -b of `ottla pipeline run`, then OTTLA_BOOTSTRAP_SERVER, then 127.0.0.1:9092."""
    kafka: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """Options of Kafka's clients, by Kafka's names: each goes to the source, the sink or both, as they have it."""
    source_options: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """maxOffsetsPerTrigger is a million by default: a micro-batch has to fit into the driver's memory."""
    sink_options: Mapping[str, Value] = field(default_factory=dict, repr=False)
    checkpoint: str | None = None
    """Without it, ottla-checkpoints/NAME in the working folder."""
    output_mode: str = "append"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the Spark session; those of `ottla pipeline run` win."""
    engine: str = STANDARD
    """standard, or low-latency for small micro-batches: the driver itself encodes and commits, and small partitions
    share the tasks that read them (minRecordsPerPartition=1000)."""
    max_restarts: int | None = None
    """How often to restart after transient failures without a micro-batch in between; None: without limit.

    Before the first start a broker has to answer within a minute; otherwise the pipeline ends."""

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

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return (
            run_overrides.overrides().bootstrap_servers
            or self.bootstrap_servers
            or default_servers()
        )

    @property
    def is_low_latency(self) -> bool:
        """Whether the driver itself encodes and commits."""
        return self.engine == LOW_LATENCY

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query, or continue from its checkpoint; the caller watches the query."""
        from ottla.spark.pipeline.output_rows import output_rows

        refuse_connect_session(spark)
        options = sink_options(self, str(spark.sparkContext.master))
        # Makes the session that of this thread: without one, Spark does not find sinks that are written in Python.
        spark.createDataFrame([], "nothing INT")
        writer = self._writer(output_rows(self, spark), options).queryName(self.name)
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

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Run until stopped, or until everything is processed with trigger=available-now.

        After a transient failure it restarts. A PipelineError says why it ended otherwise, a ConfigError which option
        is wrong. Ctrl-C and SIGTERM stop it between two micro-batches.
        """
        overrides = run_overrides.begun(self)
        settings = {**self.settings, **overrides.settings}
        if overrides.master is not None:
            settings["spark.master"] = overrides.master
        require_spark()
        refuse_connect(settings)
        from ottla.spark.pipeline import preflight
        from ottla.spark.sink import micro_batch_commit

        checkpoint = checkpoint_location(self, master := master_with(settings))
        clusters = preflight.check_options(self, master)
        require_java()
        if not overrides.goes_on:
            preflight.reach(self, clusters)
            preflight.check_topics(self, master)
        start = partial(start_session, self.name, checkpoint=checkpoint, settings=settings)
        with Stop(partial(overrides.tell, "stopping; a second signal does not wait")) as stop:
            began = time.monotonic()
            try:
                # Spark installs a handler for Ctrl-C that talks to Java, also in the middle of another call.
                spark = stop.shield(start)
            except Exception:
                if not stop.is_wanted:
                    raise
                # The signal went to the whole process group and ended Java too.
                stop.obey()
                return
            if not stop.is_wanted:
                overrides.tell(f"Spark runs after {time.monotonic() - began:.0f} s")
            try:
                Supervisor(self, spark, on_progress or overrides.on_progress or _ignore, stop).run()
            finally:
                # The low-latency engine commits in this process.
                micro_batch_commit.forget(self.name)
            stop.obey()


def trigger_ms(text: str) -> int:
    """The minimum time between micro-batches."""
    try:
        if text.strip().isdigit():
            raise ValueError("a number without a unit is ambiguous")
        return duration_ms(text)
    except ValueError:
        raise ConfigError(
            f"trigger={text!r} is not valid: give a time, as in '500 ms' or '10 seconds', or '{AVAILABLE_NOW}'. "
            "Continuous and real-time triggers have no micro-batches to commit"
        ) from None


def _ignore(progress: Progress) -> None:
    """No listener was given."""
