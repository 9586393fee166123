"""Reading a range of offsets in a task, as Arrow columns."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.client.arguments import Partition
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.errors import OffsetOutOfRangeError, TimedOutError
from ottla.spark.asking import absent
from ottla.spark.offsets import DataLossError
from ottla.spark.ranges import OffsetRange
from ottla.spark.source_options import SourceOptions

log = logging.getLogger("ottla.spark")

# How long one poll may take; what counts is how long there is no progress.
_POLL_SECONDS: Final = 1.0
# A task uses one at a time, and a worker runs one task after the other.
_MOST_IDLE: Final = 4

GAP_HINT: Final = (
    "endingOffsets names records that are not there: they are not written yet, or an open transaction holds them back. "
    "Set failOnDataLoss=false to read up to the end"
)
LOSS_HINT: Final = (
    "Records that this query has not seen are gone: they were deleted by retention, or with their topic. "
    "Set failOnDataLoss=false to go on without them"
)

_Key = tuple[tuple[str, str], ...]
_idle: list[tuple[_Key, Consumer]] = []
"""Consumers of this process that no task uses; they save connections, and nothing depends on them."""


def read_range(wanted: OffsetRange, options: SourceOptions, schema: Any) -> Iterator[Any]:
    """The records of a range as `pyarrow.RecordBatch`es."""
    key = tuple(sorted(options.consumer.items()))
    consumer = _taken(key, options.consumer)
    try:
        yield from _RangeReader(consumer, wanted, options).batches(schema)
    except GeneratorExit:
        _keep(key, consumer)
        raise
    except BaseException:
        consumer.close()
        raise
    _keep(key, consumer)


def _taken(key: _Key, options: Mapping[str, str]) -> Consumer:
    for at, (other, consumer) in enumerate(_idle):
        if other == key:
            del _idle[at]
            return consumer
    return Consumer(dict(options))


def _keep(key: _Key, consumer: Consumer) -> None:
    _idle.append((key, consumer))
    while len(_idle) > _MOST_IDLE:
        _idle.pop(0)[1].close()


def close_idle() -> None:
    """Close what is kept for the next task."""
    while _idle:
        _idle.pop()[1].close()


class _RangeReader:
    """Moves a consumer through a range."""

    def __init__(self, consumer: Consumer, wanted: OffsetRange, options: SourceOptions) -> None:
        self._consumer = consumer
        self._partition, self._position, self._end = wanted
        self._options = options

    def batches(self, schema: Any) -> Iterator[Any]:
        consumer, partition = self._consumer, self._partition
        if consumer.assignment() != {partition}:
            consumer.assign([partition])
            consumer.seek(partition, self._position)
        elif consumer.position(partition) != self._position:
            consumer.seek(partition, self._position)
        ends: dict[Partition, int] = {partition: self._end}
        progress_at = time.monotonic()
        while self._position < self._end:
            try:
                records = consumer.poll_arrow(_POLL_SECONDS, schema=schema, end_offsets=ends)
            except OffsetOutOfRangeError as error:
                self._skip(error)
                continue
            if partition in records.next_offsets:
                self._position = records.next_offsets[partition].offset
                progress_at = time.monotonic()
            elif (time.monotonic() - progress_at) * 1000 >= self._options.poll_timeout_ms:
                self._stalled()
            yield from records.batches

    def _skip(self, error: OffsetOutOfRangeError) -> None:
        """Go on where there are records again, if the query may lose some."""
        first = self._consumer.beginning_offsets([self._partition])[self._partition]
        last = self._consumer.end_offsets([self._partition])[self._partition]
        self._lose(
            f"{self._partition} has offsets from {first} to {last}, and {self._position} was wanted",
            error,
        )
        if last <= self._position:
            self._position = self._end
        else:
            # A log that was truncated and has grown again has other records at the same offsets.
            self._position = min(max(first, self._position), self._end)
        self._consumer.seek(self._partition, self._position)

    def _stalled(self) -> None:
        """Nothing came for kafkaConsumer.pollTimeoutMs: say why."""
        with Admin(dict(self._options.admin)) as admin:
            is_gone = bool(absent(admin, [self._partition.topic]))
        if is_gone:
            self._lose(
                f"{self._partition} is gone, and was to be read from {self._position} to {self._end}",
                None,
            )
            self._position = self._end
            return
        last = self._consumer.end_offsets([self._partition])[self._partition]
        if last < self._end:
            self._lose(f"{self._partition} ends at {last}, and {self._end} was its end", None)
            self._position = self._end
            return
        raise TimedOutError(
            message=f"No record of {self._partition} came within {self._options.poll_timeout_ms} ms; "
            "kafkaConsumer.pollTimeoutMs is how long a task waits",
            context={"partition": self._partition, "offset": self._position},
        )

    def _lose(self, what: str, error: Exception | None) -> None:
        report_loss(self._options, what, error)


def report_loss(options: SourceOptions, what: str, error: Exception | None = None) -> None:
    """Fail, or go on with a warning, as failOnDataLoss says."""
    _report(options, what, LOSS_HINT, error)


def report_gap(options: SourceOptions, what: str) -> None:
    """As `report_loss`, for an end that the user gave."""
    _report(options, what, GAP_HINT, None)


def _report(options: SourceOptions, what: str, hint: str, error: Exception | None) -> None:
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}. {hint}") from error
    log.warning("%s: some records are lost, and failOnDataLoss=false accepts that", what)
