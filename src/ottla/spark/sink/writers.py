"""Writes rows to topics: tasks encode them, the driver commits each micro-batch in one transaction.

What tasks encode travels to the driver (`task_messages`): on a cluster a micro-batch has to fit its memory and
`spark.driver.maxResultSize`, so `maxOffsetsPerTrigger` should bound it. With delivery=at-least-once tasks send by
themselves, and nothing does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.client.existing_topics import existing
from ottla.errors import ConfigError, OttlaError
from ottla.records.arrow import ColumnsEncoder, EncodedBatch
from ottla.spark.runtime.worker_memory import freeze_what_is_loaded
from ottla.spark.sink.micro_batch_commit import Committer, Target, sources_of
from ottla.spark.sink.progress import MicroBatch, group_offsets
from ottla.spark.sink.query_checkpoint import Pin, unknown_place
from ottla.spark.sink.sink_options import (
    EXACTLY_ONCE,
    SinkSettings,
    read_stream_settings,
)
from ottla.spark.sink.sink_plan import (
    NO_MICRO_BATCHES,
    check_names_agree,
    is_read_by_us_here,
    micro_batch,
    newest_plan,
    plan_of,
    refuse_continuous,
)
from ottla.spark.sink.target_topics import refuse_missing
from ottla.spark.sink.task_messages import Parcel, own_folder, packed, sweep

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ottla.spark")

# Of what Spark tells its tasks.
QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
CHECKPOINT_ROOT: Final = "spark.sql.streaming.checkpointLocation"
CONTINUOUS: Final = "__is_continuous_processing"
NOTHING: Final = Parcel()


def stream_writer(
    given: Mapping[str, str], schema: StructType
) -> ExactlyOnceWriter | AtLeastOnceWriter:
    """The writer of a streaming query."""
    settings = read_stream_settings(given, schema)
    counts = pinned_counts(settings)
    if settings.delivery == EXACTLY_ONCE:
        # Whether the checkpoint can be opened shows at the start.
        pin = newest_plan(settings)
        if pin is not None:
            check_names_agree(settings, pin.plan)
        return ExactlyOnceWriter(settings, counts, pin)
    refuse_continuous(settings)
    return AtLeastOnceWriter(settings, counts)


class TaskCommit(WriterCommitMessage):
    """What a task tells the driver: whose micro-batch it was, and what it encoded."""

    def __init__(
        self,
        task: int,
        query: str | None,
        batch: int | None,
        root: str | None,
        parcel: Parcel,
        pin: Pin | None = None,
    ) -> None:
        self.task = task
        self.query = query
        self.batch = batch
        self.root = root
        self.parcel = parcel
        self.pin = pin


# Tasks


def pinned_counts(settings: SinkSettings) -> dict[str, int]:
    """How many partitions the topics have that are known by name: all tasks of a micro-batch agree on it."""
    named = dict.fromkeys((settings.topic, settings.marker_topic))
    needed = [each for each in named if each is not None]
    # Rows may not name the others ever, so these need not exist.
    return partition_counts(settings, needed, settings.pinned_topics)


def partition_counts(
    settings: SinkSettings, needed: Sequence[str], others: Sequence[str] = ()
) -> dict[str, int]:
    """As many as there are now: what a producer remembers may be minutes old."""
    found = existing(admin_of(settings), dict.fromkeys([*needed, *others]))
    counts = {name: len(topic.partitions) for name, topic in found.items()}
    missing = [each for each in needed if each not in counts]
    if missing:
        refuse_missing(admin_of(settings), missing)
    for each in missing:
        # It is created by asking for it.
        counts[each] = len(sending(settings).partitions_for(each))
    return counts


def encoded(
    settings: SinkSettings,
    counts: Mapping[str, int],
    batches: Iterable[pa.RecordBatch],
    first_partition: int,
) -> Iterator[EncodedBatch]:
    """The rows of a task as record batches; those of a partition in order."""

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


def told(parcel: Parcel = NOTHING, pin: Pin | None = None) -> TaskCommit:
    """The message of the running task; the plan goes with that of the first."""
    context = _context()
    batch = context.getLocalProperty(BATCH)
    return TaskCommit(
        context.partitionId(),
        context.getLocalProperty(QUERY),
        None if batch is None else int(batch),
        context.getLocalProperty(CHECKPOINT_ROOT),
        parcel,
        pin if context.partitionId() == 0 else None,
    )


def packed_rows(
    settings: SinkSettings,
    counts: Mapping[str, int],
    batches: Iterable[pa.RecordBatch],
    drivers_folder: str | None,
) -> Parcel:
    """The rows of a task, encoded, for the driver."""
    context = _context()
    query, number = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    return packed(
        encoded(settings, counts, batches, first_partition()),
        drivers_folder if drivers_folder == own_folder() else None,
        (query or "batch", int(number or 0), context.taskAttemptId()),
    )


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "write runs in tasks"
    return context


def first_partition() -> int:
    """Where rows without a key begin, another place for each task and micro-batch."""
    context = TaskContext.get()
    if context is None:
        return 0
    return context.partitionId() + int(context.getLocalProperty(BATCH) or 0)


def send(
    settings: SinkSettings, counts: Mapping[str, int], batches: Iterable[pa.RecordBatch]
) -> None:
    """Send the rows of a task, at least once."""
    producer = sending(settings)
    futures = [
        producer.send_encoded(each.topic, each.partition, each.data, check_crc=False)
        for each in encoded(settings, counts, batches, first_partition())
    ]
    producer.flush()
    for future in futures:
        future.result(0)


# Producers without transactions of this process, by their options.
_producers: dict[tuple[tuple[str, str], ...], Producer] = {}
_admins: dict[tuple[tuple[str, str], ...], Admin] = {}
_lock = threading.Lock()


def sending(settings: SinkSettings) -> Producer:
    """A producer that this process keeps."""
    key = tuple(sorted(settings.kafka.items()))
    with _lock:
        found = _producers.get(key)
        if found is None:
            found = _producers[key] = Producer(dict(settings.kafka))
        return found


def admin_of(settings: SinkSettings) -> Admin:
    """A client that this process keeps."""
    key = tuple(sorted(settings.kafka.items()))
    with _lock:
        found = _admins.get(key)
        if found is None:
            found = _admins[key] = Admin(settings.admin)
        return found


# Streaming


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """Every micro-batch is written once and as a whole, whatever fails."""

    def __init__(
        self, settings: SinkSettings, counts: Mapping[str, int], pin: Pin | None = None
    ) -> None:
        self._settings = settings
        self._counts = counts
        # Of the process that plans the tasks, whose writer they have; that of the process that commits is too young.
        self._pin = pin
        self._drivers_folder = own_folder()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Encode the rows of a task; nothing is sent, so that a task may fail or run twice."""
        check_trigger()
        settings = self._settings
        root = _context().getLocalProperty(CHECKPOINT_ROOT)
        if settings.commits_source_offsets and settings.location is None and root is None:
            raise unknown_place()
        rows = packed_rows(settings, self._counts, iterator, self._drivers_folder)
        message = told(rows, self._pin)
        freeze_what_is_loaded()
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write what the tasks encoded, in one transaction, unless that has happened before."""
        written = _all_of(messages, batchId)
        query, root = _query_of(written, batchId)
        pin = next((each.pin for each in written if each.pin is not None), None)
        plan = plan_of(self._settings, query, root, batchId, pin)
        check_names_agree(self._settings, plan)
        records = (each for message in written for each in message.parcel.open())
        target = target_of(self._settings, query)
        batch = micro_batch(self._settings, query, batchId, records, plan, is_read_by_us_here)
        outcome = Committer(target).commit(batch)
        sweep(query, batchId, self._drivers_folder)
        freeze_what_is_loaded()
        log.info("%s: micro-batch %d: %s", target.pipeline, batchId, outcome.value)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: nothing was sent, or `commit` ended what it had begun, or it committed."""
        discard(messages)
        for message in messages:
            if isinstance(message, TaskCommit) and message.query is not None:
                Committer(target_of(self._settings, message.query)).forget()
                return


class AtLeastOnceWriter(DataSourceStreamArrowWriter):
    """Tasks send by themselves; a task or a micro-batch that runs again writes its rows again."""

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Send the rows of a task."""
        check_trigger()
        send(self._settings, self._counts, iterator)
        freeze_what_is_loaded()
        return told()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Everything is written; a pipeline's group is told how far its source is, for its lag."""
        settings = self._settings
        # Also where nobody wants the offsets: without messages nothing was written.
        written = _all_of(messages, batchId)
        if settings.pipeline is None or not settings.commits_source_offsets:
            return
        query, root = _query_of(written, batchId)
        try:
            plan = plan_of(settings, query, root, batchId)
            with Admin(settings.admin) as admin:
                cluster = admin.describe_cluster().cluster_id
                batch = MicroBatch(query, batchId, sources=plan.sources)
                if ends := group_offsets(sources_of(cluster, batch)):
                    admin.alter_consumer_group_offsets(settings.pipeline, dict(ends))
        except OttlaError as error:
            log.warning("%s: the source's offsets were not committed: %s", settings.pipeline, error)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was sent stays."""


def check_trigger() -> None:
    """Refuse what has no micro-batches."""
    context = TaskContext.get()
    if context is not None and context.getLocalProperty(CONTINUOUS) == "true":
        raise ConfigError(NO_MICRO_BATCHES)


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


def all_written(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    """The messages in the order of tasks; each task has one."""
    written = [each for each in messages if isinstance(each, TaskCommit)]
    if messages and not written:
        # Epochs end before tasks do. Spark only logs this, and does not see what a running task refuses.
        raise ConfigError(NO_MICRO_BATCHES)
    if len(written) < len(messages):
        raise OttlaError(f"{len(messages) - len(written)} of {len(messages)} tasks left no message")
    written.sort(key=lambda each: each.task)
    tasks = [each.task for each in written]
    if len(set(tasks)) < len(tasks):
        raise OttlaError(f"tasks left more than one message: there are those of {tasks}")
    return written


def _all_of(messages: Sequence[WriterCommitMessage | None], number: int) -> list[TaskCommit]:
    """As `all_written`, and all are of this micro-batch."""
    written = all_written(messages)
    others = [each.batch for each in written if each.batch not in (None, number)]
    if others:
        raise OttlaError(f"micro-batch {number} got messages of micro-batches {others}")
    return written


def discard(messages: Sequence[WriterCommitMessage | None]) -> None:
    """What tasks have encoded is not wanted."""
    for message in messages:
        if isinstance(message, TaskCommit):
            message.parcel.discard()


def _query_of(written: Sequence[TaskCommit], number: int) -> tuple[str, str | None]:
    for each in written:
        if each.query is not None:
            return each.query, each.root
    raise OttlaError(f"no task of micro-batch {number} knows its query")
