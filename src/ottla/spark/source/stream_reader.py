"""The reader of streaming queries."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.errors import ConfigError, RetriableError
from ottla.model import TopicPartition
from ottla.spark.driver_folder import SourceRegistry, driver_folder
from ottla.spark.sink.progress_renewal import Renewal
from ottla.spark.source.cluster import SourceCluster
from ottla.spark.source.limits import EARLIEST, LATEST
from ottla.spark.source.offset_ranges import OffsetRange
from ottla.spark.source.range_reader import report_loss, report_other_source
from ottla.spark.source.source_options import read_stream_options
from ottla.spark.source.source_tasks import check_schema, plan_tasks, read_task
from ottla.spark.source.stream_offsets import (
    AvailableOffsets,
    FoundPartitions,
    Pacing,
    SourceOffset,
    is_same_position,
    latest_available,
    limit_offsets,
    missing_partitions,
    new_partitions,
    offset_count,
    ranges_between,
    recreated_topics,
    resume_offsets,
    source_range,
    target_from,
    truncated_partitions,
)

log = logging.getLogger("ottla.spark")

# New partitions and topics are found within this time.
DISCOVERY_SECONDS: Final = 1.0
# Between two attempts to commit the same offsets for lag tools.
COMMIT_RETRY_SECONDS: Final = 10.0


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a query with wrong options: raises the error when Spark calls it.

    If `streamReader` itself raised, Spark would call `stop` on a reader that does not exist and report that failure.
    """

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Refused."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Refused."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Refused."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Refused."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Refused."""
        raise self._error


class LagCommits:
    """Commits processed offsets in the group of commitOffsets, for tools that show lag; without a group it does
    nothing.

    The same offsets once; after a failure again, after a pause.
    """

    def __init__(self, cluster: SourceCluster, group: str | None) -> None:
        self._cluster = cluster
        self._group = group
        self._tried: Mapping[TopicPartition, int] | None = None
        self.next_attempt_at = 0.0

    def commit(self, processed: SourceOffset) -> None:
        """Micro-batches were processed up to here."""
        now = time.monotonic()
        if self._group is None:
            return
        if processed.offsets == self._tried and now < self.next_attempt_at:
            return
        self._tried = processed.offsets
        is_committed = self._cluster.commit(self._group, processed.offsets)
        self.next_attempt_at = math.inf if is_committed else now + COMMIT_RETRY_SECONDS


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream from position to position; Spark keeps the positions in its checkpoint."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        check_schema(given, schema)
        self._options = read_stream_options(given)
        self._cluster = SourceCluster(self._options)
        self._begin: SourceOffset | None = None
        self._found: FoundPartitions | None = None
        self._found_at = 0.0
        self._batch_at: float | None = None
        self._latest: SourceOffset | None = None
        self._ends_when_done = False
        self._target: SourceOffset | None = None
        self._reported_losses: tuple[str, ...] = ()
        self._former: list[TopicPartition] = []
        self._lag_commits = LagCommits(self._cluster, self._options.commit_group)
        self._registry = SourceRegistry(driver_folder())
        self._renewal = self._new_renewal()

    def _new_renewal(self) -> Renewal | None:
        options = self._options
        if options.pipeline is None:
            return None
        return Renewal(options.pipeline, options.renewal, lambda: self._cluster.admin)

    # Where to start

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without a checkpoint starts."""
        # Spark calls this when it plans the first micro-batch and again when it runs it; both have to agree.
        if self._begin is None:
            self._begin = self._find_begin()
        return self._begin.to_json()

    def _find_begin(self) -> SourceOffset:
        found = self._cluster.found_at_first()
        offsets = self._committed_begin(found) or self._cluster.starts(self._options.start, found)
        return SourceOffset(
            offsets, found.topic_ids, found.cluster, self._options.pipeline, begin=offsets
        )

    def _committed_begin(self, found: FoundPartitions) -> dict[TopicPartition, int] | None:
        """The committed offsets of a pipeline that lost its checkpoint; None if it has not run before."""
        pipeline = self._options.pipeline
        if pipeline is None or not found.partitions:
            return None
        # A process of the former driver may still commit. Fence first, then read the offsets.
        self._cluster.fence(pipeline)
        committed = self._cluster.committed(pipeline, found.partitions)
        missing = [each for each, offset in committed.items() if offset is None]
        if len(missing) == len(committed):
            return None
        offsets = resume_offsets(committed, self._cluster.ends(missing, EARLIEST))
        log.warning(
            "pipeline %s has no checkpoint, and continues at its committed offsets",
            pipeline,
        )
        return offsets

    # How far to read

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of the options; Spark passes it to `latestOffset` unless the trigger reads everything."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query reads up to the end that the first `latestOffset` finds, and ends."""
        self._ends_when_done = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends; the start if there is nothing to read yet."""
        begin = SourceOffset.from_json(start)
        # The micro-batch up to `start` is done. Spark calls `commit` for it only when the next one is planned.
        if not begin.is_initial:
            self._lag_commits.commit(begin)
        end = self._available(begin)
        if is_same_position(begin, end) or not self._is_due(offset_count(begin, end), limit):
            if self._renewal is not None:
                self._renewal.nothing_to_read()
            return start
        self._batch_at = time.monotonic()
        if isinstance(limit, ReadMaxRows):
            end = limit_offsets(begin, end, limit.max_rows)
        elif isinstance(limit, ReadMinRows) and self._options.max_offsets is not None:
            end = limit_offsets(begin, end, self._options.max_offsets)
        return end.to_json()

    def _is_due(self, count: int, limit: ReadLimit) -> bool:
        """Whether minOffsetsPerTrigger is reached; a query that ends does not wait."""
        least = self._options.min_offsets
        if least is None or isinstance(limit, ReadAllAvailable) or self._ends_when_done:
            return True
        # The first micro-batch does not wait, as in Spark's own source.
        if self._batch_at is None:
            return True
        waited_ms = (time.monotonic() - self._batch_at) * 1000
        return Pacing(least, self._options.max_delay_ms).is_due(count, waited_ms)

    def _available(self, start: SourceOffset) -> SourceOffset:
        if self._target is not None:
            return target_from(start, self._target)
        self._check_source(start)
        end, losses = self._find_end(start)
        # A loss is reported once.
        for each in losses:
            if each not in self._reported_losses:
                report_loss(self._options, each)
        self._reported_losses = losses
        end = replace(end, group=self._options.pipeline)
        self._latest = end
        if self._ends_when_done:
            self._target = end
        return end

    def _check_source(self, start: SourceOffset) -> None:
        """Tell a checkpoint that was written with another source from topics that were deleted."""
        includes = self._options.subscription.includes
        former = [each for each in start.offsets if not includes(each)]
        if former and former != self._former:
            report_other_source(self._options, former)
        self._former = former

    def _find_end(self, start: SourceOffset) -> AvailableOffsets:
        """The end of all partitions; looked up again if a leader seems to be behind, or a topic is missing."""
        attempt = 1
        while True:
            is_last = attempt >= self._options.lookup_attempts
            found = self._discovered()
            try:
                latest = self._cluster.ends(found.partitions, LATEST)
                earliest = self._cluster.ends(new_partitions(start, found), EARLIEST)
                if is_last or not (
                    missing_partitions(start, found) or truncated_partitions(start, found, latest)
                ):
                    return latest_available(start, found, latest, earliest)
            except RetriableError:
                if is_last:
                    raise
            attempt += 1
            self._found = None
            self._cluster.pause()

    def _discovered(self) -> FoundPartitions:
        now = time.monotonic()
        if self._found is None or now - self._found_at >= DISCOVERY_SECONDS:
            self._found = self._cluster.found()
            self._found_at = now
        return self._found

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of all partitions at the last `latestOffset`; Spark reports it, and the lag follows from it."""
        return None if self._latest is None else self._latest.to_json()

    # The tasks of a micro-batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch."""
        begin, stop = SourceOffset.from_json(start), SourceOffset.from_json(end)
        # The end of the first micro-batch has its start: if it is repeated, `start` may be another.
        planned = source_range(None if stop.begin else begin, stop)
        self._registry.record(planned, self._options.pipeline)
        todo = ranges_between(begin, stop)
        return plan_tasks(self._still_there(todo, stop), stop.topic_ids, self._options)

    def _still_there(self, todo: list[OffsetRange], stop: SourceOffset) -> list[OffsetRange]:
        """Without topics that were deleted and created again since: they have other records at these offsets.

        A micro-batch that is repeated after a restart may have been planned long ago.
        """
        again = recreated_topics(stop, self._discovered().topic_ids)
        for each in sorted({each.partition.topic for each in todo} & again):
            report_loss(
                self._options,
                f"topic {each} was deleted and created again after a micro-batch was planned",
            )
        return [each for each in todo if each.partition.topic not in again]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one task."""
        return read_task(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """A micro-batch was processed up to here; with commitOffsets the group gets the offsets."""
        self._lag_commits.commit(SourceOffset.from_json(end))

    def stop(self) -> None:
        """The query has ended: close the connections."""
        self._cluster.close()
