"""Builds the plan of a micro-batch's commit: a TaskPlan when Spark plans the tasks, a CommitPlan at the commit."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ottla.client.blocking.admin import Admin
from ottla.errors import ConfigError
from ottla.spark.driver_folder import SourceRegistry, driver_folder
from ottla.spark.sink.checkpoint_files import CheckpointError, open_files
from ottla.spark.sink.commit_plan import (
    CommitPlan,
    KafkaSourcePlan,
    PlannedOffsets,
    PlanOrigin,
    TaskPlan,
)
from ottla.spark.sink.process_state import SINK_PROCESS
from ottla.spark.sink.progress import Marker, marker_group
from ottla.spark.sink.query_checkpoint import Checkpoint, find_checkpoint
from ottla.spark.sink.sink_options import EXACTLY_ONCE, SinkSettings
from ottla.spark.sink.target_topics import planned_partition_counts
from ottla.spark.source.stream_offsets import SourceRange

log = logging.getLogger("ottla.spark")

NO_MICRO_BATCHES: Final = (
    "format('ottla') writes micro-batches, and this query is processed continuously: use "
    "trigger(processingTime=...) or trigger(availableNow=True)"
)
# Groups keep offsets for seven days, so the marker of a micro-batch that was planned within a day has not expired.
_MARKER_CERTAIN_MS: Final = 24 * 3600 * 1000


class CommitPlanner:
    """Builds the plans of one query's commits; makes no decisions on them."""

    def __init__(
        self, settings: SinkSettings, is_read_by_us: Callable[[SourceRange], bool] | None = None
    ) -> None:
        self._settings = settings
        self._registry = SourceRegistry(driver_folder())
        self._is_read_by_us = is_read_by_us or self._registry.has

    # When Spark plans the tasks

    def task_plan(self) -> TaskPlan:
        """The task plan, made when Spark plans the tasks, just after it wrote `offsets/N`."""
        counts = planned_partition_counts(self._settings)
        offsets = self._newest_offsets()
        if offsets is not None:
            self._check_pipeline_names(offsets)
        return TaskPlan(counts, offsets)

    def _newest_offsets(self) -> PlannedOffsets | None:
        """The plan of the micro-batch that is about to run; None if the checkpoint's location is not known yet.

        Read now, because a second instance may replace it before the commit.
        """
        settings = self._settings
        location = settings.location
        is_exactly_once = settings.delivery == EXACTLY_ONCE
        is_needed = is_exactly_once and settings.commits_source_offsets
        if location is None:
            return None
        if location in SINK_PROCESS.unreadable_checkpoints and not is_needed:
            return None
        try:
            checkpoint = Checkpoint(location, open_files(location, settings.storage))
            batch = _newest_batch(checkpoint)
            if batch is None or not is_exactly_once:
                return None
            return self._read_offsets(checkpoint, batch)
        except CheckpointError as error:
            if is_exactly_once:
                self._give_up(location, error)
            SINK_PROCESS.unreadable_checkpoints.add(location)
            return None

    # At the commit

    def commit_plan(
        self, query: str, batch: int, checkpoint_root: str | None, task_plan: TaskPlan
    ) -> CommitPlan:
        """The inputs of the commit's decision; reads the checkpoint again."""
        plan = self.read_checkpoint(CommitPlan(query, batch, task_plan), checkpoint_root)
        if plan.offsets is None or plan.origin is PlanOrigin.REPLACED:
            return plan
        self._check_pipeline_names(plan.offsets)
        kafka_source = plan.offsets.kafka_source
        is_first = kafka_source is not None and self._is_first_of_ours(query, kafka_source)
        return replace(plan, is_first_of_ours=is_first)

    def read_checkpoint(self, plan: CommitPlan, root: str | None) -> CommitPlan:
        """Add the checkpoint's current plan; `root` is the session's checkpoint location for all queries."""
        settings = self._settings
        location = settings.location or root
        plan = replace(plan, location=location)
        is_unreadable = location in SINK_PROCESS.unreadable_checkpoints
        if is_unreadable and not settings.commits_source_offsets:
            return plan
        try:
            checkpoint = find_checkpoint(
                plan.query, settings.location, root, settings.query_name, settings.storage
            )
            offsets = self._read_again(checkpoint, plan)
            keeps_state = plan.batch == 0 and checkpoint.keeps_state()
        except CheckpointError as error:
            self._give_up(location, error)
            return plan
        plan = replace(
            plan,
            offsets_at_commit=offsets,
            location=checkpoint.location,
            keeps_state=keeps_state,
        )
        return replace(plan, is_refuted=self._registry.refutes(plan.sources))

    def _read_again(self, checkpoint: Checkpoint, plan: CommitPlan) -> PlannedOffsets | None:
        at_planning = plan.offsets_at_planning
        if at_planning is None or at_planning.batch < plan.batch:
            return self._read_offsets(checkpoint, plan.batch)
        if at_planning.batch > plan.batch:
            # Another instance has planned a later micro-batch: nothing to compare.
            return None
        return PlannedOffsets(plan.batch, checkpoint.digest(plan.batch))

    def _is_first_of_ours(self, query: str, found: KafkaSourcePlan) -> bool:
        """Whether the query switches from Spark's own connector with this micro-batch, so has no marker (ADR 0031)."""
        if found.ranges:
            # It was interrupted under the other source. That source with our sink would have a marker, which may have
            # expired; so our source has to read it now.
            moving = [each for each in found.ranges if each.start != each.end]
            return bool(moving) and all(map(self._is_read_by_us, moving))
        age_ms = math.inf if found.planned_ms is None else time.time() * 1000 - found.planned_ms
        former = {name for name in found.groups if name is not None} - {self._settings.pipeline}
        return age_ms < _MARKER_CERTAIN_MS and not any(
            self._has_marker(name, query) for name in former
        )

    def _has_marker(self, pipeline: str, query: str) -> bool:
        """Whether the query has a marker under a pipeline name that it had before."""
        group = marker_group(pipeline)
        with Admin(self._settings.admin) as admin:
            stored = admin.list_consumer_group_offsets([group], require_stable=True)[group].values()
        markers = [Marker.from_offset(each, group) for each in stored if each is not None]
        return any(each.query == query for each in markers)

    # Both

    def _read_offsets(self, checkpoint: Checkpoint, batch: int) -> PlannedOffsets:
        """The plan of a micro-batch; with commitSourceOffsets=false perhaps only its digest."""
        if self._settings.commits_source_offsets:
            return checkpoint.planned(batch)
        try:
            return checkpoint.planned(batch)._replace(sources=())
        except CheckpointError:
            return PlannedOffsets(batch, checkpoint.digest(batch))

    def _check_pipeline_names(self, offsets: PlannedOffsets) -> None:
        """Refuse a source of this driver with another pipeline name: after a lost checkpoint it would start there."""
        kafka = () if offsets.kafka_source is None else offsets.kafka_source.ranges
        for source in (*offsets.sources, *kafka):
            name = self._registry.pipeline_of(source)
            if name and name != self._settings.pipeline:
                raise names_differ(name, self._settings.pipeline)

    def _give_up(self, location: str | None, error: CheckpointError) -> None:
        """Continue without the checkpoint, if the options allow that."""
        if self._settings.commits_source_offsets:
            raise error
        SINK_PROCESS.unreadable_checkpoints.add(location)
        log.warning(
            "The checkpoint is not read, so a checkpoint that is older than the output may go unnoticed: %s",
            error,
        )


def _newest_batch(checkpoint: Checkpoint) -> int | None:
    """The number of the newest plan; None where there is no checkpoint.

    Refuses continuous processing, which plans its tasks before any offsets; micro-batches do it the other way round.
    Later is too late: continuous tasks do not call `write`, and Spark only logs what `commit` raises.
    """
    batch = checkpoint.newest()
    if batch is None and checkpoint.query() is not None and not checkpoint.is_planned(0):
        raise ConfigError(NO_MICRO_BATCHES)
    return batch


def names_differ(of_source: str, of_sink: str | None) -> ConfigError:
    """The source and the sink of one pipeline have different names."""
    has = "has none" if of_sink is None else f"has pipeline={of_sink!r}"
    return ConfigError(
        f"the source has pipeline={of_source!r}, and the sink {has}: give both the same name. The progress is kept "
        "under that of the sink, and the source looks there if the checkpoint is lost"
    )
