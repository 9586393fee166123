"""The sink of batch queries: all rows in one transaction, or each task sends its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.client.blocking.producer import Producer
from ottla.spark.driver_folder import driver_folder
from ottla.spark.sink.sink_options import EXACTLY_ONCE, SinkSettings, read_batch_settings
from ottla.spark.sink.target_topics import planned_partition_counts
from ottla.spark.sink.task_rows import (
    SparkTask,
    TaskCommit,
    complete_messages,
    discard_parcels,
    pack_rows,
    send_rows,
)
from ottla.spark.sink.transaction import one_transaction


def batch_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> OneTransactionWriter | DirectWriter:
    """The writer of a batch query."""
    settings = read_batch_settings(given, schema, overwrite)
    counts = planned_partition_counts(settings)
    if settings.delivery == EXACTLY_ONCE:
        return OneTransactionWriter(settings, counts)
    return DirectWriter(settings, counts)


class OneTransactionWriter(DataSourceArrowWriter):
    """All rows of a batch query in one transaction: readers see all of them or none.

    A query that is run again writes its rows again, under another transactional id.
    """

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts
        self._driver_folder = driver_folder()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Encode the rows of a task."""
        task = SparkTask.current()
        rows = pack_rows(self._settings, self._counts, iterator, task, self._driver_folder)
        return TaskCommit(task, rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write everything."""
        name = f"ottla-batch-{uuid.uuid4()}"
        options: dict[str, Any] = {**self._settings.kafka, "transactional.id": name}
        found = complete_messages(messages)
        with Producer(options) as producer:
            producer.init_transactions()
            with one_transaction(producer, name):
                for message in found:
                    for topic, partition, data in message.parcel.open():
                        producer.send_encoded(topic, partition, data, check_crc=False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was sent, or `commit` has aborted its transaction."""
        discard_parcels(messages)


class DirectWriter(DataSourceArrowWriter):
    """Tasks send their rows; a task that runs again writes its rows again."""

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Send the rows of a task."""
        task = SparkTask.current()
        send_rows(self._settings, self._counts, iterator, task)
        return TaskCommit(task)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Everything is written."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Rows that were sent stay."""
