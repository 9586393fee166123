"""Checks before Spark starts, which takes seconds: options, brokers that answer, topics that exist."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.client.blocking.admin import Admin
from ottla.config.consumer import ConsumerConfig
from ottla.errors import KafkaError, TimedOutError
from ottla.spark.pipeline.failure_policy import PipelineError
from ottla.spark.pipeline.query_options import sink_options, source_options
from ottla.spark.sink.checkpoint_files import CheckpointError, open_files
from ottla.spark.sink.commit_planner import names_differ
from ottla.spark.sink.low_latency_engine import check_delivery
from ottla.spark.sink.query_checkpoint import Checkpoint
from ottla.spark.sink.sink_options import SinkSettings, stream_settings
from ottla.spark.sink.target_topics import refuse_missing
from ottla.spark.source.cluster import SourceCluster
from ottla.spark.source.source_options import SourceOptions, read_stream_options

if TYPE_CHECKING:
    from ottla.spark.pipeline.pipeline import Pipeline

log = logging.getLogger("ottla.spark")

# After this time a warning says that the pipeline is waiting for the broker.
_SOON_MS: Final = 3000


@dataclass(frozen=True)
class ClusterToReach:
    """How to connect to a cluster, and how long to wait for its answer."""

    # May contain passwords.
    options: Mapping[str, str] = field(repr=False)
    patience_ms: int


def check_options(pipeline: Pipeline, master: str) -> list[ClusterToReach]:
    """Refuse options that the source or the sink would refuse; the clusters that they use."""
    found: list[ClusterToReach] = []
    name_of_source = None
    if not callable(pipeline.source):
        source = read_stream_options(source_options(pipeline, pipeline.source))
        consumer = ConsumerConfig.read(dict(source.consumer))
        found.append(ClusterToReach(source.admin, consumer.default_api_timeout_ms))
        name_of_source = source.pipeline
    sink = stream_settings(sink_options(pipeline, master))
    if name_of_source is not None and name_of_source != sink.pipeline:
        raise names_differ(name_of_source, sink.pipeline)
    if pipeline.is_low_latency:
        check_delivery(sink)
    if not any(sink.admin == cluster.options for cluster in found):
        found.append(ClusterToReach(sink.admin, sink.config.max_block_ms))
    return found


def check_topics(pipeline: Pipeline, master: str) -> None:
    """Refuse topics that do not exist: source topics of a new query, target topics that the cluster does not create."""
    sink = stream_settings(sink_options(pipeline, master))
    try:
        _check_target_topics(pipeline, sink)
        if not callable(pipeline.source) and _is_new(sink):
            _check_source_topics(read_stream_options(source_options(pipeline, pipeline.source)))
    except KafkaError as error:
        # Without permission to ask. Source and sink find out when they run.
        log.debug(
            "could not check whether the topics of pipeline %s exist: %s", pipeline.name, error
        )


def _check_target_topics(pipeline: Pipeline, sink: SinkSettings) -> None:
    names = (pipeline.sink, pipeline.dead_letter, sink.topic, sink.marker_topic)
    with Admin(sink.admin) as admin:
        refuse_missing(admin, {name for name in names if name is not None})


def _is_new(sink: SinkSettings) -> bool:
    """Whether the checkpoint has no plan yet. One that has may continue without a deleted topic (failOnDataLoss)."""
    assert sink.location is not None
    try:
        return Checkpoint(sink.location, open_files(sink.location, sink.storage)).newest() is None
    except CheckpointError:
        return False


def _check_source_topics(source: SourceOptions) -> None:
    cluster = SourceCluster(source)
    try:
        cluster.found_at_first()
    finally:
        cluster.close()


def reach(pipeline: Pipeline, clusters: Iterable[ClusterToReach]) -> None:
    """Wait until each cluster has answered once; a PipelineError after the client's timeout."""
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
    """Only the timeout ends the attempts."""
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
    """The error of the last attempt."""
    last = error.__cause__
    return last.message if isinstance(last, KafkaError) else error.message
