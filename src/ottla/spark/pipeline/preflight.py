"""What can be told before Spark starts, which takes seconds: whether the options are good, and a broker answers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.client.blocking.admin import Admin
from ottla.config.consumer import ConsumerConfig
from ottla.errors import KafkaError, TimedOutError
from ottla.spark.pipeline.failure_policy import PipelineError
from ottla.spark.sink.commit_planner import names_differ
from ottla.spark.sink.low_latency_engine import check_delivery
from ottla.spark.sink.sink_options import stream_settings
from ottla.spark.sink.target_topics import refuse_missing
from ottla.spark.source.source_options import read_stream_options

if TYPE_CHECKING:
    from ottla.spark.pipeline.pipeline import Pipeline

log = logging.getLogger("ottla.spark")

# When whoever waits is told so.
_SOON_MS: Final = 3000


@dataclass(frozen=True)
class ClusterToReach:
    """How to ask a cluster, and how long to wait for its answer."""

    # There may be passwords in them.
    options: Mapping[str, str] = field(repr=False)
    patience_ms: int


def check_options(pipeline: Pipeline, master: str) -> list[ClusterToReach]:
    """Refuse options that the source or the sink would refuse; whom they ask."""
    found: list[ClusterToReach] = []
    name_of_source = None
    if not callable(pipeline.source):
        source = read_stream_options(pipeline.read_options(pipeline.source))
        consumer = ConsumerConfig.read(dict(source.consumer))
        found.append(ClusterToReach(source.admin, consumer.default_api_timeout_ms))
        name_of_source = source.pipeline
    sink = stream_settings(pipeline.written_with(master))
    if name_of_source is not None and name_of_source != sink.pipeline:
        raise names_differ(name_of_source, sink.pipeline)
    if pipeline.is_low_latency:
        check_delivery(sink)
    if not any(sink.admin == cluster.options for cluster in found):
        found.append(ClusterToReach(sink.admin, sink.config.max_block_ms))
    return found


def check_topics(pipeline: Pipeline, master: str) -> None:
    """Refuse topics to write to that do not exist and that the cluster does not create."""
    sink = stream_settings(pipeline.written_with(master))
    names = (pipeline.sink, pipeline.dead_letter, sink.topic, sink.marker_topic)
    with Admin(sink.admin) as admin:
        try:
            refuse_missing(admin, {name for name in names if name is not None})
        except KafkaError as error:
            # Who may not ask writes all the same, or is told why not.
            log.debug(
                "whether the topics of pipeline %s exist is not known: %s", pipeline.name, error
            )


def reach(pipeline: Pipeline, clusters: Iterable[ClusterToReach]) -> None:
    """Wait until each cluster has answered once, as long as its client would."""
    for cluster in clusters:
        try:
            with Admin(_without_retries(cluster.options)) as admin:
                _wait_for(admin, cluster)
        except TimedOutError as error:
            waited = f"no answer in {cluster.patience_ms / 1000:g} s"
            raise PipelineError(
                f"pipeline {pipeline.name} did not start, {waited}: {_reason(error)}"
            ) from error
        except KafkaError as error:
            raise PipelineError(f"pipeline {pipeline.name} did not start: {error}") from error


def _without_retries(options: Mapping[str, str]) -> dict[str, str]:
    """What counts is the time."""
    return {name: value for name, value in options.items() if name != "retries"}


def _wait_for(admin: Admin, cluster: ClusterToReach) -> None:
    left_ms = cluster.patience_ms - _SOON_MS
    try:
        admin.describe_cluster(timeout=min(_SOON_MS, cluster.patience_ms) / 1000)
    except TimedOutError as error:
        if left_ms <= 0:
            raise
        log.warning("%s Waiting for up to %g s more.", _reason(error), left_ms / 1000)
        admin.describe_cluster(timeout=left_ms / 1000)


def _reason(error: TimedOutError) -> str:
    """What the last attempt met with."""
    last = error.__cause__
    return last.message if isinstance(last, KafkaError) else error.message
