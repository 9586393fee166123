"""The sink of streaming queries: tasks encode rows, the driver commits each micro-batch in one transaction.

The encoded records travel to the driver (`task_messages`): on a cluster a micro-batch has to fit its memory and
`spark.driver.maxResultSize`, so `maxOffsetsPerTrigger` should bound it. With delivery=at-least-once tasks send by
themselves, and nothing bounds it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.client.blocking.admin import Admin
from ottla.errors import OttlaError
from ottla.spark.driver_folder import driver_folder
from ottla.spark.runtime.daemon import freeze_loaded_modules
from ottla.spark.sink.commit_plan import CommitPlan, PlanOrigin, TaskPlan
from ottla.spark.sink.commit_planner import CommitPlanner
from ottla.spark.sink.commit_session import DriverSender
from ottla.spark.sink.micro_batch_commit import Committer
from ottla.spark.sink.progress import Target, group_offsets
from ottla.spark.sink.query_checkpoint import unknown_location
from ottla.spark.sink.sink_options import EXACTLY_ONCE, SinkSettings, read_stream_settings
from ottla.spark.sink.task_messages import remove_leftovers
from ottla.spark.sink.task_rows import (
    SparkTask,
    TaskCommit,
    complete_messages,
    discard_parcels,
    pack_rows,
    send_rows,
)

log = logging.getLogger("ottla.spark")


def stream_writer(
    given: Mapping[str, str], schema: StructType
) -> ExactlyOnceWriter | AtLeastOnceWriter:
    """The writer of a streaming query.

    Spark asks for one in the process that plans the tasks, which get pickled copies of it, and for another one in the
    process that commits.
    """
    settings = read_stream_settings(given, schema)
    # Also in the process that commits, which does not use it: what is wrong with topics or checkpoint shows at the
    # start.
    plan = CommitPlanner(settings).task_plan()
    if settings.delivery == EXACTLY_ONCE:
        return ExactlyOnceWriter(settings, plan)
    return AtLeastOnceWriter(settings, plan)


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """Writes every micro-batch once and as a whole."""

    def __init__(self, settings: SinkSettings, plan: TaskPlan) -> None:
        self._settings = settings
        self._plan = plan
        self._driver_folder = driver_folder()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Encode the rows of a task; nothing is sent, so that a task may fail or run twice."""
        task = SparkTask.current()
        settings = self._settings
        if (
            settings.commits_source_offsets
            and settings.location is None
            and task.checkpoint_root is None
        ):
            raise unknown_location()
        counts = self._plan.partition_counts
        rows = pack_rows(settings, counts, iterator, task, self._driver_folder)
        freeze_loaded_modules()
        return TaskCommit(task, rows, self._plan)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write the encoded rows of the tasks in one transaction, unless they are committed already."""
        found = _messages_of(messages, batchId)
        query, root = _query_of(found, batchId)
        # The tasks' plan, not this writer's: a second instance may have replaced the checkpoint's plan in between.
        task_plan = next(each.plan for each in found if each.plan is not None)
        plan = CommitPlanner(self._settings).commit_plan(query, batchId, root, task_plan)
        records = (each for message in found for each in message.parcel.open())
        target = target_of(self._settings, query)
        outcome = Committer(target).commit(plan, DriverSender(records))
        remove_leftovers(query, batchId, self._driver_folder)
        freeze_loaded_modules()
        log.info("%s: micro-batch %d: %s", target.pipeline, batchId, outcome.value)
        log.debug(
            "%s: micro-batch %d: its plan was %s", target.pipeline, batchId, plan.origin.value
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo in Kafka: nothing was sent, or `commit` aborted its transaction, or it committed."""
        discard_parcels(messages)
        for message in messages:
            if isinstance(message, TaskCommit) and message.task.query is not None:
                Committer(target_of(self._settings, message.task.query)).forget()
                return


class AtLeastOnceWriter(DataSourceStreamArrowWriter):
    """Tasks send their rows; a task or a micro-batch that runs again writes its rows again."""

    def __init__(self, settings: SinkSettings, plan: TaskPlan) -> None:
        self._settings = settings
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Send the rows of a task."""
        task = SparkTask.current()
        send_rows(self._settings, self._plan.partition_counts, iterator, task)
        freeze_loaded_modules()
        return TaskCommit(task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All rows are written; commit the source's offsets in the pipeline's group, for tools that show lag."""
        settings = self._settings
        # Checked in any case: if a message is missing, rows are.
        found = _messages_of(messages, batchId)
        if settings.pipeline is None or not settings.commits_source_offsets:
            return
        query, root = _query_of(found, batchId)
        try:
            plan = CommitPlan(query, batchId, self._plan)
            plan = CommitPlanner(settings).read_checkpoint(plan, root)
            if plan.origin is PlanOrigin.REPLACED:
                raise OttlaError("another instance has planned the micro-batch anew")
            with Admin(settings.admin) as admin:
                cluster = admin.describe_cluster().cluster_id
                if ends := group_offsets(plan.sources_on(cluster)):
                    admin.alter_consumer_group_offsets(settings.pipeline, dict(ends))
        except OttlaError as error:
            log.warning("%s: the source's offsets were not committed: %s", settings.pipeline, error)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Rows that were sent stay."""


def target_of(settings: SinkSettings, query: str) -> Target:
    """Where the micro-batches of a query go."""
    assert settings.marker_topic is not None
    return Target(
        settings.pipeline or f"ottla-{query}",
        settings.marker_topic,
        settings.kafka,
        settings.admin,
        settings.fails_on_unknown,
    )


def _messages_of(messages: Sequence[WriterCommitMessage | None], number: int) -> list[TaskCommit]:
    """The complete messages, all of this micro-batch."""
    found = complete_messages(messages)
    others = [each.task.batch for each in found if each.task.batch not in (None, number)]
    if others:
        raise OttlaError(f"micro-batch {number} got messages of micro-batches {others}")
    return found


def _query_of(found: Sequence[TaskCommit], number: int) -> tuple[str, str | None]:
    for each in found:
        if each.task.query is not None:
            return each.task.query, each.task.checkpoint_root
    raise OttlaError(f"no task of micro-batch {number} knows its query")
