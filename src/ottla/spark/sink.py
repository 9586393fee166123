"""Writes rows to topics: tasks encode them, the driver commits each micro-batch in one transaction.

What tasks encode travels to the driver (`handing_over`): on a cluster a micro-batch has to fit its memory and
`spark.driver.maxResultSize`, so `maxOffsetsPerTrigger` should bound it. With delivery=at-least-once tasks send by
themselves, and nothing does.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.errors import ConfigError, FatalError, KafkaError, OttlaError
from ottla.records.arrow import ColumnsEncoder, EncodedBatch
from ottla.spark.committing import Committer, Target, commit_until_answered, sources_of
from ottla.spark.handing_over import Parcel, own_folder, packed, sweep
from ottla.spark.progress import MicroBatch
from ottla.spark.sink_options import (
    EXACTLY_ONCE,
    SinkSettings,
    read_batch_settings,
    read_stream_settings,
)
from ottla.spark.source_offsets import NO_PLAN, Plan, find_checkpoint, open_files, unknown_place

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
        if settings.location is not None and settings.commits_source_offsets:
            # Whether it can be opened shows at the start.
            open_files(settings.location, settings.storage).read("metadata")
        return ExactlyOnceWriter(settings, counts)
    return AtLeastOnceWriter(settings, counts)


def batch_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> OneTransactionWriter | DirectWriter:
    """The writer of a batch query."""
    settings = read_batch_settings(given, schema, overwrite)
    counts = pinned_counts(settings)
    if settings.delivery == EXACTLY_ONCE:
        return OneTransactionWriter(settings, counts)
    return DirectWriter(settings, counts)


class Written(WriterCommitMessage):
    """What a task tells the driver: whose micro-batch it was, and what it encoded."""

    def __init__(
        self,
        task: int,
        query: str | None,
        batch: int | None,
        root: str | None,
        parcel: Parcel,
    ) -> None:
        self.task = task
        self.query = query
        self.batch = batch
        self.root = root
        self.parcel = parcel


# Tasks


def pinned_counts(settings: SinkSettings) -> dict[str, int]:
    """How many partitions the topic has: all tasks of a micro-batch agree on it."""
    if settings.topic is None:
        return {}
    return {settings.topic: len(sending(settings).partitions_for(settings.topic))}


def encoded(
    settings: SinkSettings,
    counts: Mapping[str, int],
    batches: Iterable[pa.RecordBatch],
    first_partition: int,
) -> Iterator[EncodedBatch]:
    """The rows of a task as record batches; those of a partition in order."""

    def count_of(topic: str) -> int:
        return counts.get(topic) or len(sending(settings).partitions_for(topic))

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


def told(parcel: Parcel = NOTHING) -> Written:
    """The message of the running task."""
    context = _context()
    batch = context.getLocalProperty(BATCH)
    return Written(
        context.partitionId(),
        context.getLocalProperty(QUERY),
        None if batch is None else int(batch),
        context.getLocalProperty(CHECKPOINT_ROOT),
        parcel,
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
        producer.send_encoded(each.topic, each.partition, each.data)
        for each in encoded(settings, counts, batches, first_partition())
    ]
    producer.flush()
    for future in futures:
        future.result(0)


# Producers without transactions of this process, by their options.
_producers: dict[tuple[tuple[str, str], ...], Producer] = {}
_lock = threading.Lock()


def sending(settings: SinkSettings) -> Producer:
    """A producer that this process keeps: it also knows the partitions of topics."""
    key = tuple(sorted(settings.kafka.items()))
    with _lock:
        found = _producers.get(key)
        if found is None:
            found = _producers[key] = Producer(dict(settings.kafka))
        return found


# Streaming


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """Every micro-batch is written once and as a whole, whatever fails."""

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts
        self._drivers_folder = own_folder()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Encode the rows of a task; nothing is sent, so that a task may fail or run twice."""
        check_trigger()
        settings = self._settings
        root = _context().getLocalProperty(CHECKPOINT_ROOT)
        if settings.commits_source_offsets and settings.location is None and root is None:
            raise unknown_place()
        return told(packed_rows(settings, self._counts, iterator, self._drivers_folder))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write what the tasks encoded, in one transaction, unless that has happened before."""
        written = _all_written(messages, batchId)
        query, root = _query_of(written, batchId)
        plan = plan_of(self._settings, query, root, batchId)
        records = (each for message in written for each in message.parcel.open())
        target = target_of(self._settings, query)
        batch = MicroBatch(query, batchId, records, plan.digest, plan.sources)
        outcome = Committer(target).commit(batch)
        sweep(query, batchId, self._drivers_folder)
        log.info("%s: micro-batch %d: %s", target.pipeline, batchId, outcome.value)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: nothing was sent, or `commit` ended what it had begun, or it committed."""
        _discard(messages)
        for message in messages:
            if isinstance(message, Written) and message.query is not None:
                Committer(target_of(self._settings, message.query)).forget()
                return


class AtLeastOnceWriter(DataSourceStreamArrowWriter):
    """Tasks send by themselves; a task or a micro-batch that runs again writes its rows again."""

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task."""
        check_trigger()
        send(self._settings, self._counts, iterator)
        return told()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Everything is written; a pipeline's group is told how far its source is, for its lag."""
        settings = self._settings
        if settings.pipeline is None:
            return
        written = _all_written(messages, batchId)
        query, root = _query_of(written, batchId)
        try:
            plan = plan_of(settings, query, root, batchId)
            with Admin(settings.admin) as admin:
                cluster = admin.describe_cluster().cluster_id
                batch = MicroBatch(query, batchId, sources=plan.sources)
                ends = {
                    at: end for each in sources_of(cluster, batch) for at, end in each.end.items()
                }
                if ends:
                    admin.alter_consumer_group_offsets(settings.pipeline, ends)
        except OttlaError as error:
            log.warning("%s: the source's offsets were not committed: %s", settings.pipeline, error)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was sent stays."""


def check_trigger() -> None:
    """Refuse what has no micro-batches."""
    context = TaskContext.get()
    if context is not None and context.getLocalProperty(CONTINUOUS) == "true":
        raise _continuous()


def _continuous() -> ConfigError:
    return ConfigError(
        "format('ottla') writes micro-batches, and this query is processed continuously: use "
        "trigger(processingTime=...) or trigger(availableNow=True)"
    )


def plan_of(settings: SinkSettings, query: str, root: str | None, number: int) -> Plan:
    """What Spark's checkpoint says of a micro-batch."""
    if not settings.commits_source_offsets:
        return NO_PLAN
    found = find_checkpoint(query, settings.location, root, settings.query_name, settings.storage)
    return found.plan(number)


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


def _all_written(messages: Sequence[WriterCommitMessage | None], number: int) -> list[Written]:
    """The messages in the order of tasks; each task has one, of this micro-batch."""
    written = [each for each in messages if isinstance(each, Written)]
    if messages and not written:
        # Epochs end without tasks having ended. Spark only logs this; a task's refusal shows when it has 10,000 rows.
        raise _continuous()
    if len(written) < len(messages):
        raise OttlaError(
            f"{len(messages) - len(written)} tasks of micro-batch {number} left no message"
        )
    written.sort(key=lambda each: each.task)
    tasks = [each.task for each in written]
    others = [each.batch for each in written if each.batch not in (None, number)]
    if len(set(tasks)) < len(tasks) or others:
        raise OttlaError(
            f"micro-batch {number} got messages of tasks {tasks} and of micro-batches {others}"
        )
    return written


def _discard(messages: Sequence[WriterCommitMessage | None]) -> None:
    """What tasks have encoded is not wanted."""
    for message in messages:
        if isinstance(message, Written):
            message.parcel.discard()


def _query_of(written: Sequence[Written], number: int) -> tuple[str, str | None]:
    for each in written:
        if each.query is not None:
            return each.query, each.root
    raise OttlaError(f"no task of micro-batch {number} knows its query")


# Batch


class OneTransactionWriter(DataSourceArrowWriter):
    """All rows of a batch query in one transaction: readers see all of them or none.

    A query that is run again writes its rows again, under a transactional id of its own.
    """

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts
        self._drivers_folder = own_folder()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Encode the rows of a task."""
        return told(packed_rows(self._settings, self._counts, iterator, self._drivers_folder))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write everything."""
        name = f"ottla-batch-{uuid.uuid4()}"
        options: dict[str, Any] = {**self._settings.kafka, "transactional.id": name}
        written = [each for each in messages if isinstance(each, Written)]
        written.sort(key=lambda each: each.task)
        with Producer(options) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            try:
                for message in written:
                    for topic, partition, data in message.parcel.open():
                        producer.send_encoded(topic, partition, data)
                commit_until_answered(producer, name)
            except FatalError:
                raise
            except KafkaError:
                producer.abort_transaction()
                raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was sent, or `commit` has aborted it."""
        _discard(messages)


class DirectWriter(DataSourceArrowWriter):
    """Tasks send by themselves; a task that runs again writes its rows again."""

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task."""
        send(self._settings, self._counts, iterator)
        return told()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Everything is written."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was sent stays."""
