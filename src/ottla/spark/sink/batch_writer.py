"""Writes the rows of batch queries: all in one transaction, or each task by itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.client.blocking.producer import Producer
from ottla.spark.sink.micro_batch_commit import one_transaction
from ottla.spark.sink.sink_options import EXACTLY_ONCE, SinkSettings, read_batch_settings
from ottla.spark.sink.task_messages import own_folder
from ottla.spark.sink.writers import (
    TaskCommit,
    all_written,
    discard,
    packed_rows,
    pinned_counts,
    send,
    told,
)

if TYPE_CHECKING:
    import pyarrow as pa


def batch_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> OneTransactionWriter | DirectWriter:
    """The writer of a batch query."""
    settings = read_batch_settings(given, schema, overwrite)
    counts = pinned_counts(settings)
    if settings.delivery == EXACTLY_ONCE:
        return OneTransactionWriter(settings, counts)
    return DirectWriter(settings, counts)


class OneTransactionWriter(DataSourceArrowWriter):
    """All rows of a batch query in one transaction: readers see all of them or none.

    A query that is run again writes its rows again, under a transactional id of its own.
    """

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts
        self._drivers_folder = own_folder()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Encode the rows of a task."""
        return told(packed_rows(self._settings, self._counts, iterator, self._drivers_folder))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write everything."""
        name = f"ottla-batch-{uuid.uuid4()}"
        options: dict[str, Any] = {**self._settings.kafka, "transactional.id": name}
        written = all_written(messages)
        with Producer(options) as producer:
            producer.init_transactions()
            with one_transaction(producer, name):
                for message in written:
                    for topic, partition, data in message.parcel.open():
                        producer.send_encoded(topic, partition, data, check_crc=False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was sent, or `commit` has aborted it."""
        discard(messages)


class DirectWriter(DataSourceArrowWriter):
    """Tasks send by themselves; a task that runs again writes its rows again."""

    def __init__(self, settings: SinkSettings, counts: Mapping[str, int]) -> None:
        self._settings = settings
        self._counts = counts

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Send the rows of a task."""
        send(self._settings, self._counts, iterator)
        return told()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Everything is written."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was sent stays."""
