"""The progress of a query, from Spark's report of its last micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.spark.source.stream_offsets import OffsetFormatError, SourceOffset, partition_lags


@dataclass(frozen=True)
class Progress:
    """A finished micro-batch, or an idle query."""

    batch: int
    input_rows: int
    """Records; for topics offsets, which include transaction markers and aborted records."""
    duration_ms: int
    lag: int | None
    """How many offsets of the sources are not processed yet; None if the sources do not report them."""

    @property
    def rows_per_second(self) -> float:
        """The speed of this micro-batch."""
        return self.input_rows * 1000 / self.duration_ms if self.duration_ms else 0.0


def progress_of(report: Mapping[str, Any]) -> Progress:
    """The progress in Spark's JSON report."""
    lags = [_lag(source) for source in report.get("sources", ())]
    known = [lag for lag in lags if lag is not None]
    return Progress(
        int(report["batchId"]),
        sum(_rows(source) for source in report.get("sources", ())),
        int(report.get("durationMs", {}).get("triggerExecution", 0)),
        sum(known) if known else None,
    )


def _rows(source: Mapping[str, Any]) -> int:
    """The offsets that our source read; Spark counts rows once for each branch of a plan that reads them."""
    start, end = _offset(source, "startOffset"), _offset(source, "endOffset")
    if start is None and end is not None and end.begin:
        # The first micro-batch: Spark reports no start.
        start = SourceOffset(end.begin)
    if start is None or end is None:
        return int(source.get("numInputRows", 0))
    return sum(partition_lags(start, end).values())


def _lag(source: Mapping[str, Any]) -> int | None:
    """The lag of a source of ours; None for other sources, or if it is not reported."""
    end, latest = _offset(source, "endOffset"), _offset(source, "latestOffset")
    return None if end is None or latest is None else sum(partition_lags(end, latest).values())


def _offset(source: Mapping[str, Any], name: str) -> SourceOffset | None:
    try:
        return SourceOffset.from_spark(source.get(name))
    except OffsetFormatError:
        return None
