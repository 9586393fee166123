"""The rows of tasks: encoded for the driver (exactly once), or sent (at least once)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from ottla.errors import ConfigError, OttlaError
from ottla.records.arrow import ColumnsEncoder, EncodedBatch
from ottla.spark.driver_folder import driver_folder
from ottla.spark.sink.commit_plan import TaskPlan
from ottla.spark.sink.commit_planner import NO_MICRO_BATCHES
from ottla.spark.sink.process_state import SINK_PROCESS
from ottla.spark.sink.sink_options import SinkSettings
from ottla.spark.sink.target_topics import partition_counts
from ottla.spark.sink.task_messages import NOTHING, Parcel, pack_batches

if TYPE_CHECKING:
    import pyarrow as pa

# Local properties that Spark sets for the tasks of a streaming query.
QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
CHECKPOINT_ROOT: Final = "spark.sql.streaming.checkpointLocation"
CONTINUOUS: Final = "__is_continuous_processing"


@dataclass(frozen=True)
class SparkTask:
    """The properties that Spark sets for the task of this process."""

    index: int
    attempt: int
    """Unique in the driver, also among attempts of the same task."""
    query: str | None
    batch: int | None
    checkpoint_root: str | None
    """The session's checkpoint location for all queries."""

    @classmethod
    def current(cls) -> SparkTask:
        """The running task; continuous processing, which has no micro-batches, is refused."""
        context = TaskContext.get()
        assert context is not None, "write runs in tasks"
        if context.getLocalProperty(CONTINUOUS) == "true":
            raise ConfigError(NO_MICRO_BATCHES)
        batch = context.getLocalProperty(BATCH)
        return cls(
            context.partitionId(),
            context.taskAttemptId(),
            context.getLocalProperty(QUERY),
            None if batch is None else int(batch),
            context.getLocalProperty(CHECKPOINT_ROOT),
        )

    @property
    def first_partition(self) -> int:
        """Where rows without a key begin: another partition for each task and micro-batch."""
        return self.index + (self.batch or 0)


class TaskCommit(WriterCommitMessage):
    """The message of a task to the commit: which micro-batch it ran for, and what it encoded."""

    def __init__(
        self, task: SparkTask, parcel: Parcel = NOTHING, plan: TaskPlan | None = None
    ) -> None:
        self.task = task
        self.parcel = parcel
        # One task has to carry it.
        self.plan = plan if task.index == 0 else None


def encode_rows(
    settings: SinkSettings,
    counts: Mapping[str, int],
    batches: Iterable[pa.RecordBatch],
    first_partition: int,
) -> Iterator[EncodedBatch]:
    """The rows as encoded record batches; those of a partition in order."""

    def count_of(topic: str) -> int:
        return counts.get(topic) or partition_counts(settings, [topic])[topic]

    encoder = ColumnsEncoder(
        count_of,
        topic=settings.topic,
        codec=settings.codec,
        level=settings.level,
        batch_size_bytes=settings.batch_size_bytes,
        first_partition=first_partition,
    )
    for batch in batches:
        yield from encoder.append(batch)
    yield from encoder.finish()


def pack_rows(
    settings: SinkSettings,
    counts: Mapping[str, int],
    batches: Iterable[pa.RecordBatch],
    task: SparkTask,
    shared_folder: str | None,
) -> Parcel:
    """The rows of a task, encoded for the driver; through a file if the driver's folder is this process's too."""
    return pack_batches(
        encode_rows(settings, counts, batches, task.first_partition),
        shared_folder if shared_folder == driver_folder() else None,
        (task.query or "batch", task.batch or 0, task.attempt),
    )


def send_rows(
    settings: SinkSettings,
    counts: Mapping[str, int],
    batches: Iterable[pa.RecordBatch],
    task: SparkTask,
) -> None:
    """Send the rows of a task, at least once."""
    producer = SINK_PROCESS.producer(settings.kafka)
    futures = [
        producer.send_encoded(each.topic, each.partition, each.data, check_crc=False)
        for each in encode_rows(settings, counts, batches, task.first_partition)
    ]
    producer.flush()
    for future in futures:
        future.result(0)


def complete_messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    """The messages in the order of tasks; an error unless each task left exactly one."""
    found = [each for each in messages if isinstance(each, TaskCommit)]
    if messages and not found:
        # In continuous processing epochs end before tasks do. Spark only logs this error, and does not see what a
        # running task refuses.
        raise ConfigError(NO_MICRO_BATCHES)
    if len(found) < len(messages):
        raise OttlaError(f"{len(messages) - len(found)} of {len(messages)} tasks left no message")
    found.sort(key=lambda each: each.task.index)
    tasks = [each.task.index for each in found]
    if len(set(tasks)) < len(tasks):
        raise OttlaError(f"tasks left more than one message: there are those of {tasks}")
    return found


def discard_parcels(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Remove the files of what tasks have encoded and the driver will not send."""
    for message in messages:
        if isinstance(message, TaskCommit):
            message.parcel.discard()
