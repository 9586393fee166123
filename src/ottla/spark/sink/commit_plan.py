"""The plan of a micro-batch's commit: all inputs of its decision, except the records and the marker in Kafka.

`commit_planner` makes it in two steps, because no process of Spark knows everything:

1. Spark plans the tasks: a `TaskPlan` with the partition counts of the target topics and the newest `offsets/N` in the
   checkpoint. It travels in the pickled writer to the tasks, and in the message of task 0 to the commit.
2. The commit: a `CommitPlan` with the query id of the tasks, their `TaskPlan`, and `offsets/N` read again.

`commit_decision` compares both readings of the checkpoint with the marker, and decides. The pipeline's name and the
risks that its user accepts do not change from one micro-batch to the next: they are in `progress.Target`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.spark.sink.progress import Marker
from ottla.spark.source.stream_offsets import SourceRange


class KafkaSourcePlan(NamedTuple):
    """The part of a plan that belongs to Spark's own Kafka source, if our source replaced it (ADR 0031)."""

    ranges: Sequence[SourceRange]
    """The ranges that Spark's source planned for this micro-batch; empty if it planned only the one before."""
    groups: Sequence[str | None]
    """The pipeline names that our own sources had when they planned it."""
    planned_ms: int | None


class PlannedOffsets(NamedTuple):
    """The plan of micro-batch `batch` in Spark's checkpoint."""

    batch: int
    digest: str
    """A checksum that distinguishes this plan from others with the same number."""
    sources: Sequence[SourceRange] = ()
    """The ranges of our own sources; empty with commitSourceOffsets=false."""
    kafka_source: KafkaSourcePlan | None = None


@dataclass(frozen=True)
class TaskPlan:
    """The inputs of a commit that are known when Spark plans the tasks of a micro-batch."""

    partition_counts: Mapping[str, int] = field(default_factory=dict)
    """Of the target topics that are known by name: all tasks of the micro-batch use the same counts."""
    offsets: PlannedOffsets | None = None
    """The newest in the checkpoint; None if only the tasks know its location, or it need not be read."""


class PlanOrigin(Enum):
    """Which reading of the checkpoint the offsets of a commit come from."""

    TASK_PLANNING = "read when the tasks were planned, and the same at the commit"
    TASK_PLANNING_ONLY = "read when the tasks were planned; the checkpoint could not be read again"
    COMMIT = "read at the commit only: the tasks were planned without"
    NOT_READ = "the checkpoint cannot be read, and commitSourceOffsets=false allows that"
    REPLACED = "the checkpoint has another plan than the tasks had"


@dataclass(frozen=True)
class CommitPlan:
    """The inputs of the decision about one micro-batch's commit."""

    query: str
    """The query's id, which Spark passes to its tasks; it stays the same after a restart from the same checkpoint."""
    batch: int
    """The micro-batch's number, as Spark passes it to `commit`."""
    task_plan: TaskPlan | None = None
    offsets_at_commit: PlannedOffsets | None = None
    """`offsets/N`, read at the commit; only its batch and digest if `task_plan` has the rest."""
    location: str | None = None
    """Where the checkpoint is."""
    is_refuted: bool = False
    """Whether a source of this driver read other offsets than these (`SourceRegistry`)."""
    keeps_state: bool = False
    """Whether it is the first micro-batch of a query that keeps state in its checkpoint: aggregations, joins."""
    is_first_of_ours: bool = False
    """Whether another sink wrote the query's micro-batches before: Spark's own connector planned them (ADR 0031)."""

    @property
    def offsets_at_planning(self) -> PlannedOffsets | None:
        """The newest `offsets/N` when Spark planned the tasks."""
        return None if self.task_plan is None else self.task_plan.offsets

    @property
    def origin(self) -> PlanOrigin:
        """Where `offsets` come from."""
        at_planning, at_commit = self.offsets_at_planning, self.offsets_at_commit
        if self.is_refuted or (at_planning is not None and at_planning.batch > self.batch):
            return PlanOrigin.REPLACED
        if at_planning is None or at_planning.batch < self.batch:
            return PlanOrigin.NOT_READ if at_commit is None else PlanOrigin.COMMIT
        if at_commit is None:
            return PlanOrigin.TASK_PLANNING_ONLY
        is_same = at_commit.digest == at_planning.digest
        return PlanOrigin.TASK_PLANNING if is_same else PlanOrigin.REPLACED

    @property
    def offsets(self) -> PlannedOffsets | None:
        """The planned offsets that the commit uses."""
        at_planning = self.offsets_at_planning
        is_of_this_batch = at_planning is not None and at_planning.batch == self.batch
        return at_planning if is_of_this_batch else self.offsets_at_commit

    @property
    def sources(self) -> Sequence[SourceRange]:
        """The ranges that our own sources read for the micro-batch."""
        return () if self.offsets is None else self.offsets.sources

    def sources_on(self, cluster: str | None) -> list[SourceRange]:
        """The source ranges of this cluster, which can store their offsets."""
        return [each for each in self.sources if cluster is not None and each.cluster == cluster]

    @property
    def marker(self) -> Marker:
        """The marker that this commit writes."""
        return Marker(self.query, self.batch, None if self.offsets is None else self.offsets.digest)
