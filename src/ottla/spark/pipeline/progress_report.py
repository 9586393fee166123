"""How far a query is, from what Spark says of its last micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.spark.source.stream_offsets import OffsetFormatError, SourceOffset, lag


@dataclass(frozen=True)
class Progress:
    """One micro-batch that is done, or a query that waits."""

    batch: int
    input_rows: int
    """Records, or for topics offsets: those of markers and of aborted records are among them."""
    duration_ms: int
    lag: int | None
    """How many offsets the sources have that are not processed; None if they do not tell."""

    @property
    def rows_per_second(self) -> float:
        """How quickly this micro-batch went."""
        return self.input_rows * 1000 / self.duration_ms if self.duration_ms else 0.0


def progress_of(report: Mapping[str, Any]) -> Progress:
    """What the JSON of Spark's progress says."""
    lags = [_lag(source) for source in report.get("sources", ())]
    known = [lag for lag in lags if lag is not None]
    return Progress(
        int(report["batchId"]),
        sum(_rows(source) for source in report.get("sources", ())),
        int(report.get("durationMs", {}).get("triggerExecution", 0)),
        sum(known) if known else None,
    )


def _rows(source: Mapping[str, Any]) -> int:
    """The offsets that a source of ours gave: rows are counted again for each branch of a plan that reads them."""
    start, end = _offset(source, "startOffset"), _offset(source, "endOffset")
    if start is None and end is not None and end.begin:
        # The first micro-batch: Spark knows no place before it.
        start = SourceOffset(end.begin)
    if start is None or end is None:
        return int(source.get("numInputRows", 0))
    return sum(lag(start, end).values())


def _lag(source: Mapping[str, Any]) -> int | None:
    """How far a source of ours is behind its topics; None if it is another source, or does not say."""
    end, latest = _offset(source, "endOffset"), _offset(source, "latestOffset")
    return None if end is None or latest is None else sum(lag(end, latest).values())


def _offset(source: Mapping[str, Any], name: str) -> SourceOffset | None:
    try:
        return SourceOffset.from_spark(source.get(name))
    except OffsetFormatError:
        return None
