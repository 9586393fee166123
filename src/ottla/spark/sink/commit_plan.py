"""The plan of a micro-batch's commit: everything that it is decided from, except the records and the marker in Kafka.

It comes together in two steps, both in `commit_planner`, because no process of Spark's knows everything:

1. Spark plans the tasks: a `TaskPlan` with the partition counts of the target topics and the newest `offsets/N` in the
   checkpoint. It travels in the pickled writer to the tasks, and in the message of task 0 to the commit.
2. The commit: a `CommitPlan` with the ids that Spark gave to the tasks, the task plan, and `offsets/N` read again.

`commit_decision` compares the plan of then, the plan of now and the marker, and says what to do. The pipeline's name
and the risks that its user accepts do not change from one micro-batch to the next: they are in `progress.Target`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.spark.sink.progress import Marker
from ottla.spark.source.stream_offsets import SourceRange


class KafkaSourcePlan(NamedTuple):
    """What a plan has of Spark's own Kafka source, which a source of ours has replaced, or may have (ADR 0031)."""

    ranges: Sequence[SourceRange]
    """What that source planned for this micro-batch; empty if it planned only the one before."""
    groups: Sequence[str | None]
    """The pipeline names that our own sources had when they planned it."""
    planned_ms: int | None


class PlannedOffsets(NamedTuple):
    """What Spark's checkpoint says of micro-batch `batch`."""

    batch: int
    digest: str
    """Tells this plan from others with the same number."""
    sources: Sequence[SourceRange] = ()
    """The ranges of our own sources; empty with commitSourceOffsets=false."""
    kafka_source: KafkaSourcePlan | None = None


@dataclass(frozen=True)
class TaskPlan:
    """What is known when Spark plans the tasks of a micro-batch."""

    partition_counts: Mapping[str, int] = field(default_factory=dict)
    """Of the target topics that are known by name: all tasks of the micro-batch use the same counts."""
    offsets: PlannedOffsets | None = None
    """The newest in the checkpoint; None if its location is known to the tasks only, or it need not be read."""


class PlanOrigin(Enum):
    """Which reading of the checkpoint the offsets of a commit come from."""

    TASK_PLANNING = "read when the tasks were planned, and the same at the commit"
    TASK_PLANNING_ONLY = "read when the tasks were planned; the checkpoint could not be read again"
    COMMIT = "read at the commit only: the tasks were planned without"
    NOT_READ = "the checkpoint cannot be read, and commitSourceOffsets=false allows that"
    REPLACED = "the checkpoint has another plan than the tasks had"


@dataclass(frozen=True)
class CommitPlan:
    """What the commit of one micro-batch is decided from."""

    query: str
    """The query's id, as Spark tells its tasks; it stays the same after a restart from the same checkpoint."""
    batch: int
    """The micro-batch's number, as Spark passes it to `commit`."""
    tasks: TaskPlan | None = None
    """The plan of then."""
    current: PlannedOffsets | None = None
    """The plan of now: `offsets/N` at the commit; with the digest only if the plan of then has the rest."""
    location: str | None = None
    """Where the checkpoint is."""
    is_refuted: bool = False
    """Whether a source of this driver read other offsets than these (`SourceRegistry`)."""
    keeps_state: bool = False
    """Whether it is the first micro-batch of a query that keeps state in its checkpoint: aggregations, joins."""
    is_first_of_ours: bool = False
    """Whether another sink wrote the query's micro-batches before: Spark's own connector planned them (ADR 0031)."""

    @property
    def planned(self) -> PlannedOffsets | None:
        """What the checkpoint said when the tasks were planned."""
        return None if self.tasks is None else self.tasks.offsets

    @property
    def origin(self) -> PlanOrigin:
        """Where `offsets` come from."""
        then, now = self.planned, self.current
        if self.is_refuted or (then is not None and then.batch > self.batch):
            return PlanOrigin.REPLACED
        if then is None or then.batch < self.batch:
            return PlanOrigin.NOT_READ if now is None else PlanOrigin.COMMIT
        if now is None:
            return PlanOrigin.TASK_PLANNING_ONLY
        return PlanOrigin.TASK_PLANNING if now.digest == then.digest else PlanOrigin.REPLACED

    @property
    def offsets(self) -> PlannedOffsets | None:
        """The planned offsets that the commit goes by."""
        is_of_this_batch = self.planned is not None and self.planned.batch == self.batch
        return self.planned if is_of_this_batch else self.current

    @property
    def sources(self) -> Sequence[SourceRange]:
        """The ranges that our own sources read for the micro-batch."""
        return () if self.offsets is None else self.offsets.sources

    def sources_on(self, cluster: str | None) -> list[SourceRange]:
        """Those whose topics this cluster has, so that it can store their offsets."""
        return [each for each in self.sources if cluster is not None and each.cluster == cluster]

    @property
    def marker(self) -> Marker:
        """What says that the micro-batch is committed."""
        return Marker(self.query, self.batch, None if self.offsets is None else self.offsets.digest)
