"""The low-latency engine: the driver collects a micro-batch's rows as Arrow columns, encodes and commits them itself.

A small micro-batch of the standard sink takes most of its time in Python processes that Spark calls one after the
other: one plans, one per task encodes, one commits. `foreachBatch` needs none of them. The commit is the same, with the
same guarantees (ADR 0018).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigError, OttlaError
from ottla.spark.pipeline.failure_policy import (
    BY_CLASS,
    MicroBatchLostError,
    NextStep,
    PipelineError,
    judge,
)
from ottla.spark.sink.commit_planner import CommitPlanner
from ottla.spark.sink.commit_session import DriverSender, EncodedRecords
from ottla.spark.sink.micro_batch_commit import Committer
from ottla.spark.sink.progress import TakenOverError
from ottla.spark.sink.sink_options import EXACTLY_ONCE, SinkSettings, read_stream_settings
from ottla.spark.sink.target_topics import planned_partition_counts
from ottla.spark.sink.task_rows import QUERY, encode_rows
from ottla.spark.sink.writers import target_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_RAISED: Final[Mapping[NextStep, type[OttlaError]]] = {
    NextStep.LEAVE: TakenOverError,
    NextStep.RESTART: MicroBatchLostError,
    NextStep.STOP: PipelineError,
    NextStep.NEW_DRIVER: PipelineError,
}
_MAX_REASON_LENGTH: Final = 1000


def check_delivery(settings: SinkSettings) -> None:
    """Refuse at-least-once delivery, which this engine does not have."""
    if settings.delivery != EXACTLY_ONCE:
        raise ConfigError(
            f"engine='low-latency' is exactly-once, and delivery is {settings.delivery}: remove one of them"
        )


class DriverSink:
    """The function for `foreachBatch`: writes each micro-batch once and as a whole."""

    def __init__(
        self, given: Mapping[str, str], schema: StructType, *, source_is_ours: bool = False
    ) -> None:
        options = {name.lower(): value for name, value in given.items()}
        self._settings = read_stream_settings(options, schema)
        # This process is no child of Spark's Java, so it has no registry of what sources read.
        self._planner = CommitPlanner(self._settings, lambda source: source_is_ours)
        check_delivery(self._settings)
        # Missing topics are reported at the start.
        planned_partition_counts(self._settings)

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Commit a micro-batch, unless that has happened before."""
        try:
            self._commit(rows, number)
        except Exception as error:
            # Spark searches the whole text of an error for patterns, and its stack is too small for a long one.
            failure = judge(type(error).__name__, f"{_judged_name(error)}: {error}")
            raise _RAISED[failure.next](failure.reason[:_MAX_REASON_LENGTH]) from None

    def _commit(self, rows: DataFrame, number: int) -> None:
        settings = self._settings
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY)
        if query is None:
            raise OttlaError(f"Spark does not tell to which query micro-batch {number} belongs")
        # Before the rows are collected: a second instance may replace the checkpoint's plan in between.
        tasks = self._planner.task_plan()
        columns = rows.toArrow().to_batches()
        records = (
            EncodedRecords(each.topic, each.partition, each.data)
            for each in encode_rows(settings, tasks.partition_counts, columns, number)
        )
        plan = self._planner.commit_plan(query, number, None, tasks)
        Committer(target_of(settings, query)).commit(plan, DriverSender(records))


def _judged_name(error: Exception) -> str:
    """The class of an error, or the nearest base class that `failure_policy` has a rule for."""
    names = [each.__name__ for each in type(error).__mro__]
    return next((name for name in names if name in BY_CLASS), names[0])
