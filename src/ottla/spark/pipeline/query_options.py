"""The options of `format("ottla")` for the source and the sink of a Pipeline."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigError
from ottla.spark.given_options import shared_options
from ottla.spark.options import Use
from ottla.spark.runtime.session import is_on_this_machine

if TYPE_CHECKING:
    from ottla.spark.pipeline.pipeline import Pipeline

Value = str | float | bool
Topics = str | Sequence[str] | re.Pattern[str]

DEFAULT_MAX_OFFSETS: Final = 1_000_000
CHECKPOINTS: Final = "ottla-checkpoints"
# A task costs as much as reading thousands of rows, so that a small micro-batch is read in one.
LOW_LATENCY_TASK_RECORDS: Final = 1000
_TASK_SIZE_OPTIONS: Final = ("minPartitions", "minRecordsPerPartition", "maxRecordsPerPartition")


def source_options(pipeline: Pipeline, topics: Topics) -> dict[str, str]:
    """The options of a source that reads topics; the user's `source_options` win."""
    options = {
        "startingOffsets": "earliest",
        "pipeline": pipeline.name,
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(DEFAULT_MAX_OFFSETS),
        **_kafka_options(pipeline, shared_options(as_text(pipeline.kafka), Use.STREAM_READ)),
        **subscription(topics),
    }
    named = {name.lower() for name in pipeline.source_options}
    if pipeline.is_low_latency and named.isdisjoint(map(str.lower, _TASK_SIZE_OPTIONS)):
        options["minRecordsPerPartition"] = str(LOW_LATENCY_TASK_RECORDS)
    wanted = as_text(pipeline.source_options)
    if pipeline.dead_letter is not None:
        # Dead letters keep their headers; `output_rows` drops those of other records if the user wants none.
        wanted = _without(wanted, {"includeHeaders": True})
    return _without(options, wanted) | wanted


def wants_headers(pipeline: Pipeline) -> bool:
    """Whether `transform` gets the column `headers`."""
    named = {name.lower(): value for name, value in as_text(pipeline.source_options).items()}
    return named.get("includeheaders", "true").strip().lower() != "false"


def sink_options(pipeline: Pipeline, master: str) -> dict[str, str]:
    """The options of the sink; the user's `sink_options` win."""
    kafka = as_text(pipeline.kafka)
    # If a function makes the source, all of them are for the sink.
    if not callable(pipeline.source):
        kafka = shared_options(kafka, Use.STREAM_WRITE)
    options = {
        **_kafka_options(pipeline, kafka),
        "pipeline": pipeline.name,
        "markerTopic": pipeline.sink,
        "checkpointLocation": checkpoint_location(pipeline, master),
    }
    options = _without(options, pipeline.sink_options) | as_text(pipeline.sink_options)
    if pipeline.dead_letter is not None:
        name = next((name for name in options if name.lower() == "pinnedtopics"), "pinnedTopics")
        options[name] = ",".join(filter(None, [options.get(name), pipeline.dead_letter]))
    return options


def checkpoint_location(pipeline: Pipeline, master: str) -> str:
    """Where Spark keeps its progress; on a cluster the user has to name it."""
    if pipeline.checkpoint is not None:
        return pipeline.checkpoint
    if not is_on_this_machine(master):
        raise ConfigError(
            f"checkpoint is missing: on {master} it has to be a place that all machines see, as in "
            "s3a://bucket/checkpoints/fraud"
        )
    return os.path.join(os.path.abspath(CHECKPOINTS), pipeline.name)


def subscription(topics: Topics) -> dict[str, str]:
    """The option that names the topics to read."""
    if isinstance(topics, re.Pattern):
        return {"subscribePattern": topics.pattern}
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names or any(not name.strip() for name in names):
        raise ConfigError("source names no topic")
    return {"subscribe": ",".join(names)}


def as_text(options: Mapping[str, Value]) -> dict[str, str]:
    """Options as Spark writes them; users may give numbers and booleans too."""
    for name, value in options.items():
        if value is None:
            raise ConfigError(f"{name} is None: leave it out, or give a value")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def _kafka_options(pipeline: Pipeline, kafka: Mapping[str, str]) -> dict[str, str]:
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    return {**options, "kafka.bootstrap.servers": pipeline.servers}


def _without(options: Mapping[str, str], others: Mapping[str, Value]) -> dict[str, str]:
    """The options that the others do not name; Spark ignores the case of names."""
    named = {name.lower() for name in others}
    return {name: value for name, value in options.items() if name.lower() not in named}
