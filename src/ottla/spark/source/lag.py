"""The lag of streaming queries, from Spark's progress reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.model import TopicPartition
from ottla.spark.source.stream_offsets import OffsetFormatError, SourceOffset, partition_lags


class QueryLag(NamedTuple):
    """The lag of a query when a micro-batch ended: the number of unread offsets of each partition."""

    query_id: str
    name: str | None
    batch_id: int
    partitions: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """The sum of all partitions."""
        return sum(self.partitions.values())


class LagListener(StreamingQueryListener):
    """Calls a function with the lag of each query after each of its micro-batches, and keeps the newest of each.

        listener = LagListener(lambda lag: print(lag.name, lag.total))
        spark.streams.addListener(listener)

    Spark calls the function on a thread of its own.
    """

    def __init__(self, on_lag: Callable[[QueryLag], object] | None = None) -> None:
        self._on_lag = on_lag
        self._lock = threading.Lock()
        self._newest: dict[str, QueryLag] = {}

    def lags(self) -> list[QueryLag]:
        """The newest lag of each running query."""
        with self._lock:
            return list(self._newest.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch has ended."""
        progress = event.progress
        sources = [(each.endOffset, each.latestOffset) for each in progress.sources]
        found = QueryLag(str(progress.id), progress.name, progress.batchId, lag_of_sources(sources))
        with self._lock:
            self._newest[found.query_id] = found
        if self._on_lag is not None:
            self._on_lag(found)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """There was nothing to read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The query is over."""
        with self._lock:
            self._newest.pop(str(event.id), None)


def lag_of_sources(sources: Sequence[tuple[Any, Any]]) -> dict[TopicPartition, int]:
    """The lag by partition, from the end and latest offsets of the sources; sources that are not ottla are left out."""
    found: dict[TopicPartition, int] = {}
    for end, latest in sources:
        try:
            both = [SourceOffset.from_spark(each) for each in (end, latest)]
        except OffsetFormatError:
            continue
        for partition, count in partition_lags(*both).items():
            # If two sources of a query read a partition, the one that is behind counts.
            found[partition] = max(count, found.get(partition, 0))
    return found
