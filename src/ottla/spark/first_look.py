"""What can be told before Spark starts, which takes seconds: whether the options are good, and a broker answers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.client.blocking.admin import Admin
from ottla.config.consumer import ConsumerConfig
from ottla.errors import KafkaError, TimedOutError
from ottla.spark.driver_sink import check_delivery
from ottla.spark.sink_options import stream_settings
from ottla.spark.source_options import read_stream_options
from ottla.spark.supervising import PipelineError

if TYPE_CHECKING:
    from ottla.spark.pipeline import Pipeline

log = logging.getLogger("ottla.spark")

# When whoever waits is told so.
_SOON_MS: Final = 3000


@dataclass(frozen=True)
class Cluster:
    """How to ask a cluster, and how long to wait for its answer."""

    # There may be passwords in them.
    options: Mapping[str, str] = field(repr=False)
    patience_ms: int


def check_options(pipeline: Pipeline, master: str) -> list[Cluster]:
    """Refuse options that the source or the sink would refuse; whom they ask."""
    found = []
    if not callable(pipeline.source):
        source = read_stream_options(pipeline.read_options(pipeline.source))
        consumer = ConsumerConfig.read(dict(source.consumer))
        found.append(Cluster(source.admin, consumer.default_api_timeout_ms))
    sink = stream_settings(pipeline.written_with(master))
    if pipeline.is_low_latency:
        check_delivery(sink)
    if not any(sink.admin == cluster.options for cluster in found):
        found.append(Cluster(sink.admin, sink.config.max_block_ms))
    return found


def reach(pipeline: Pipeline, clusters: Iterable[Cluster]) -> None:
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


def _wait_for(admin: Admin, cluster: Cluster) -> None:
    left_ms = cluster.patience_ms - _SOON_MS
    try:
        admin.describe_cluster(timeout_ms=min(_SOON_MS, cluster.patience_ms))
    except TimedOutError as error:
        if left_ms <= 0:
            raise
        log.warning("%s Waiting for up to %g s more.", _reason(error), left_ms / 1000)
        admin.describe_cluster(timeout_ms=left_ms)


def _reason(error: TimedOutError) -> str:
    """What the last attempt met with."""
    last = error.__cause__
    return last.message if isinstance(last, KafkaError) else error.message
