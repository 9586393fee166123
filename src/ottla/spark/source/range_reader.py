"""Reads ranges of offsets in a task, as Arrow columns."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.client.arguments import Partition
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.errors import OffsetOutOfRangeError, TimedOutError
from ottla.model import TopicPartition
from ottla.spark.cluster_queries import missing_topics
from ottla.spark.source.offset_ranges import OffsetRange
from ottla.spark.source.source_options import SourceOptions
from ottla.spark.source.stream_offsets import DataLossError

log = logging.getLogger("ottla.spark")

# The timeout of one poll. pollTimeoutMs limits the time without progress.
_POLL_SECONDS: Final = 1.0
# A worker process runs one task after the other, each with one consumer.
_MOST_IDLE: Final = 4
# How long a consumer keeps the partitions of earlier tasks assigned, and how many.
_STAY_SECONDS: Final = 60.0
_MOST_ASSIGNED: Final = 200

GAP_HINT: Final = (
    "endingOffsets names records that are not there: they are not written yet, or an open transaction holds them back. "
    "Set failOnDataLoss=false to read up to the end"
)
LOSS_HINT: Final = (
    "Records that this query has not seen are gone: they were deleted by retention, or with their topic. "
    "Set failOnDataLoss=false to go on without them"
)
OTHER_SOURCE_HINT: Final = (
    "The checkpoint was written with another source. Read these topics too; or give the query a new checkpoint, and a "
    "pipeline a new name; or set failOnDataLoss=false to leave out what was not read of them"
)

_Key = tuple[tuple[str, str], ...]


class _SharedConsumer(NamedTuple):
    """A consumer that tasks with the same options share one after the other, and its positions."""

    key: _Key
    consumer: Consumer
    positions: dict[TopicPartition, int]
    used_at: dict[TopicPartition, float]
    topic_ids: dict[str, str]
    """Of the topics it may have prefetched: a topic that was created again has other records at the same offsets."""


_idle: list[_SharedConsumer] = []
"""Consumers of this process that no task uses; they only save connections. They live as long as the process."""


def read_ranges(
    wanted: Sequence[OffsetRange],
    topic_ids: Mapping[str, str],
    options: SourceOptions,
    schema: Any,
) -> Iterator[Any]:
    """The records of ranges of different partitions as `pyarrow.RecordBatch`es, those of a partition in their order."""
    shared = _take_consumer(options.consumer, topic_ids)
    try:
        yield from _RangesReader(shared, wanted, options).batches(schema)
    except GeneratorExit:
        _return_consumer(shared)
        raise
    except BaseException:
        shared.consumer.close()
        raise
    _return_consumer(shared)


def _take_consumer(options: Mapping[str, str], topic_ids: Mapping[str, str]) -> _SharedConsumer:
    key = tuple(sorted(options.items()))
    for shared in [each for each in _idle if each.key == key]:
        _idle.remove(shared)
        if all(shared.topic_ids.get(topic, found) == found for topic, found in topic_ids.items()):
            shared.topic_ids.update(topic_ids)
            return shared
        shared.consumer.close()
    return _SharedConsumer(key, Consumer(dict(options)), {}, {}, dict(topic_ids))


def _return_consumer(shared: _SharedConsumer) -> None:
    _idle.append(shared)
    while len(_idle) > _MOST_IDLE:
        _idle.pop(0).consumer.close()


def close_idle() -> None:
    """Close the idle consumers: for tests, since Spark ends the processes of workers."""
    while _idle:
        _idle.pop().consumer.close()


class _RangesReader:
    """Reads several ranges at the same time with one consumer."""

    def __init__(
        self, shared: _SharedConsumer, wanted: Sequence[OffsetRange], options: SourceOptions
    ) -> None:
        self._consumer, self._positions = shared.consumer, shared.positions
        self._used_at = shared.used_at
        self._starts = {each.partition: each.start_offset for each in wanted}
        self._ends: dict[Partition, int] = {each.partition: each.end_offset for each in wanted}
        assert len(self._starts) == len(wanted), "a task has one range of a partition"
        self._options = options

    def batches(self, schema: Any) -> Iterator[Any]:
        self._go_to_starts()
        # In the other assigned partitions the consumer stays at its position.
        for partition, position in self._positions.items():
            self._ends.setdefault(partition, position)
        waited_seconds = 0.0
        while self._unfinished():
            # Only the time in poll counts, not what the caller does with the records.
            began = time.monotonic()
            try:
                records = self._consumer.poll_arrow(
                    _POLL_SECONDS, schema=schema, end_offsets=self._ends
                )
            except OffsetOutOfRangeError as error:
                for topic, number in error.offsets:
                    self._skip(TopicPartition(topic, number), error)
                continue
            waited_seconds += time.monotonic() - began
            if records.next_offsets:
                waited_seconds = 0.0
            elif waited_seconds * 1000 >= self._options.poll_timeout_ms:
                self._stalled()
                waited_seconds = 0.0
            for partition, reached in records.next_offsets.items():
                self._positions[partition] = reached.offset
            yield from records.batches

    def _go_to_starts(self) -> None:
        """Seek only where the position differs, so that prefetched records are used.

        Partitions of former tasks stay assigned: to come back to a topic, the consumer would have to look up its
        leaders.
        """
        now = time.monotonic()
        self._used_at.update(dict.fromkeys(self._starts, now))
        assigned = [each for each, at in self._used_at.items() if now - at < _STAY_SECONDS]
        self._assign(assigned if len(assigned) <= _MOST_ASSIGNED else list(self._starts))
        for partition, offset in self._starts.items():
            if self._positions.get(partition) != offset:
                self._seek(partition, offset)

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        left = self._used_at.keys() - set(partitions)
        if left or self._used_at.keys() != self._positions.keys():
            self._consumer.assign(partitions)
        for partition in left:
            del self._used_at[partition]
            self._positions.pop(partition, None)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)
        self._positions[partition] = offset

    def _unfinished(self) -> list[TopicPartition]:
        return [each for each in self._starts if self._positions[each] < self._ends[each]]

    def _give_up(self, partition: TopicPartition) -> None:
        """Read no more of a partition."""
        self._ends[partition] = self._positions[partition]

    def _skip(self, partition: TopicPartition, error: OffsetOutOfRangeError) -> None:
        """Continue at the next existing record, if the query may lose some."""
        if partition not in self._starts:
            # Its log was truncated. The task that reads it next reports that.
            self._assign([each for each in self._used_at if each != partition])
            return
        first = self._consumer.beginning_offsets([partition])[partition]
        last = self._consumer.end_offsets([partition])[partition]
        position = self._positions[partition]
        self._lose(
            f"{partition} has offsets from {first} to {last}, and {position} was wanted", error
        )
        if last <= position:
            self._give_up(partition)
        else:
            # A log that was truncated and has grown since has other records at the same offsets.
            self._seek(partition, min(max(first, position), self._ends[partition]))

    def _stalled(self) -> None:
        """No record came for kafkaConsumer.pollTimeoutMs: report why, for each unfinished partition."""
        left = self._unfinished()
        with Admin(dict(self._options.admin)) as admin:
            gone = missing_topics(admin, [each.topic for each in left])
        here = [each for each in left if each.topic not in gone]
        lasts = self._consumer.end_offsets(here) if here else {}
        for each in left:
            position, end = self._positions[each], self._ends[each]
            if each.topic in gone:
                self._lose(f"{each} is gone, and was to be read from {position} to {end}", None)
            elif lasts[each] < end:
                self._lose(f"{each} ends at {lasts[each]}, and {end} was its end", None)
            else:
                raise TimedOutError(
                    message=f"No record of {each} came within {self._options.poll_timeout_ms} ms; "
                    "kafkaConsumer.pollTimeoutMs is how long a task waits",
                    context={"partition": each, "offset": position},
                )
            self._give_up(each)

    def _lose(self, what: str, error: Exception | None) -> None:
        report_loss(self._options, what, error)


def report_loss(options: SourceOptions, what: str, error: Exception | None = None) -> None:
    """Fail, or log a warning, depending on failOnDataLoss."""
    _report(options, what, LOSS_HINT, error)


def report_gap(options: SourceOptions, what: str) -> None:
    """As `report_loss`, for an end that the user has given."""
    _report(options, what, GAP_HINT, None)


def report_other_source(options: SourceOptions, former: Sequence[TopicPartition]) -> None:
    """As `report_loss`, for a checkpoint with partitions that the options do not name any more."""
    topics = ", ".join(sorted({each.topic for each in former}))
    what = f"The checkpoint has offsets of {topics}, and this query reads {options.subscription}"
    _report(options, what, OTHER_SOURCE_HINT, None)


def _report(options: SourceOptions, what: str, hint: str, error: Exception | None) -> None:
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}. {hint}") from error
    log.warning("%s: some records are lost, and failOnDataLoss=false accepts that", what)
