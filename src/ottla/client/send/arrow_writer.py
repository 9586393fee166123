"""From a call of `send_arrow` to batches: Arrow columns are encoded as they are, without an object for each record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.client.plugins.interceptors import ProducerInterceptors
from ottla.client.send.encoded_batches import check_size, compression_of
from ottla.client.send.partition_router import PartitionRouter, TopicQueues
from ottla.client.send.record_serializers import RecordSerializers
from ottla.client.send.record_writer import RecordWriter, Steps
from ottla.client.send.sent_rows import SentRows
from ottla.client.state.producer.accumulator import Accumulator
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError

if TYPE_CHECKING:
    from ottla.records.arrow_encoder import ColumnsEncoder, EncodedBatch

COLUMNS: Final = ("value", "key", "headers", "partition", "timestamp")
"""The columns of records to send; all but the value may be missing."""

# How much is encoded between two chances of the sender.
_PART_BYTES: Final = 1024 * 1024


class ArrowWriter:
    """Puts the rows of Arrow tables into the accumulator."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        router: PartitionRouter,
        serializers: RecordSerializers,
        interceptors: ProducerInterceptors,
        single: RecordWriter,
    ) -> None:
        self._codec, self._level = compression_of(config)
        self._accumulator = accumulator
        self._router = router
        self._passes_bytes = serializers.pass_bytes and not interceptors
        self._single = single

    def parts(
        self,
        sent: SentRows,
        topic: str,
        rows: Any,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Iterator[Steps[None]]:
        """The steps for some of the rows after the other; each may wait for max.block.ms."""
        sending = _Sending(self, sent, topic, partition, timestamp_ms)
        yield self._guarded(sent, sending.begin(rows))
        for part in sending.parts():
            yield self._guarded(sent, sending.send(part))
        yield self._guarded(sent, sending.finish())

    def _guarded(self, sent: SentRows, steps: Steps[None]) -> Steps[None]:
        try:
            yield from steps
        except Exception as error:
            if isinstance(error, KafkaError):
                error.context["accepted"] = sent
            self._single.on_refused(error)
            raise

    # What one call needs

    def known_topic(
        self, topic: str, partition: int | None, timestamp_ms: int | None
    ) -> Steps[TopicQueues]:
        """The queues of the topic, once it is known."""
        return self._single.topic_queues(topic, partition, timestamp_ms)

    def check_partitions(self, *, has_partitions: bool) -> None:
        """Raise if options of the producer would have to see each record."""
        if not self._passes_bytes:
            raise IllegalStateError(
                "send_arrow sends keys and values as they are: it needs a producer without serializers and interceptors"
            )
        if not has_partitions and (not self._router.is_standard or self._router.ignores_keys):
            raise IllegalStateError(
                "send_arrow chooses partitions as the default partitioner: with partitioner.class or "
                "partitioner.ignore.keys, give a column 'partition', or partition="
            )

    def encoder(self, topic: str, known: TopicQueues) -> ColumnsEncoder:
        """An encoder whose batches a request of this producer can take."""
        from ottla.records.arrow_encoder import DEFAULT_BATCH_SIZE_BYTES, ColumnsEncoder

        settings = self._accumulator.settings
        return ColumnsEncoder(
            lambda _: known.count,
            topic=topic,
            codec=self._codec,
            level=self._level,
            batch_size_bytes=min(
                DEFAULT_BATCH_SIZE_BYTES, settings.max_request_bytes, settings.memory_bytes
            ),
            first_partition=self._router.sticky_queue(topic, known).key.partition,
        )

    def put(self, known: TopicQueues, sent: SentRows, batch: EncodedBatch) -> Steps[None]:
        """Add an encoded batch to its queue."""
        check_size(batch.data, self._accumulator.settings)
        queue = known.queues[batch.partition]
        add = partial(self._accumulator.append_encoded, queue, batch.data)
        future = yield from self._single.with_memory(queue, len(batch.data), add)
        sent.add(future, batch.record_count)


class _Sending:
    """One call of `send_arrow`."""

    def __init__(
        self,
        writer: ArrowWriter,
        sent: SentRows,
        topic: str,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> None:
        self._writer = writer
        self._sent = sent
        self._topic = topic
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._batches: Iterable[Any] = ()

    def begin(self, rows: Any) -> Steps[None]:
        """Check the columns, and wait for the topic."""
        names, self._batches = _record_batches(rows)
        _check_columns(names, has_partition=self._partition is not None)
        has_partitions = self._partition is not None or "partition" in names
        self._writer.check_partitions(has_partitions=has_partitions)
        self._known = yield from self._writer.known_topic(
            self._topic, self._partition, self._timestamp_ms
        )
        self._encoder = self._writer.encoder(self._topic, self._known)

    def parts(self) -> Iterator[Any]:
        """The rows, some at a time, so that others have their turn in between."""
        for batch in self._batches:
            count = max(1, batch.num_rows * _PART_BYTES // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, count):
                yield batch.slice(start, count)

    def send(self, rows: Any) -> Steps[None]:
        """Encode some rows, and send the batches that are full."""
        if self._partition is not None:
            rows = _with_partition(rows, self._partition)
        for batch in self._encoder.append(rows, self._timestamp_ms):
            yield from self._writer.put(self._known, self._sent, batch)

    def finish(self) -> Steps[None]:
        """Send the batches that are not full."""
        for batch in self._encoder.finish():
            yield from self._writer.put(self._known, self._sent, batch)


def _record_batches(rows: Any) -> tuple[list[str], Iterable[Any]]:
    """The names of the columns, and the rows as record batches."""
    from ottla.records.arrow_schema import pa

    if isinstance(rows, pa.RecordBatch):
        return rows.schema.names, [rows]
    if isinstance(rows, pa.Table):
        return rows.schema.names, rows.to_batches()
    if not isinstance(rows, pa.RecordBatchReader):
        if not hasattr(rows, "__arrow_c_stream__"):
            raise TypeError(
                "rows are a pyarrow Table, RecordBatch or RecordBatchReader, or a data frame or relation of a library "
                f"that exports Arrow streams, not {type(rows).__name__}"
            )
        rows = pa.RecordBatchReader.from_stream(rows)
    return rows.schema.names, rows


def _check_columns(names: list[str], *, has_partition: bool) -> None:
    """Raise if the columns are not those of records."""
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise ValueError(
            f"a record has no {', '.join(map(repr, unknown))}: select the columns, which may be {', '.join(COLUMNS)}"
        )
    if "value" not in names:
        raise ValueError(f"there is no column 'value', only {names}")
    if len(set(names)) < len(names):
        raise ValueError(f"there are columns with the same name: {names}")
    if has_partition and "partition" in names:
        raise ValueError("partition= and a column 'partition' exclude each other")


def _with_partition(rows: Any, partition: int) -> Any:
    from ottla.records.arrow_schema import pa

    column = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, column], [*rows.schema.names, "partition"])
