"""How the cluster was: rates and lags over time, of the whole cluster, of topics and of groups, in bounded memory.

The totals have a point for each poll of the last 15 minutes, topics and groups one for ten seconds. All have one
for each minute of six hours. Topics and groups are kept from when they first do something; 2,000 of each are at most
40 MB.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.cluster.tracks import Number, Track, Values

MINUTE_MS: Final = 60_000
RECENT_MS: Final = 15 * MINUTE_MS
LONG_MS: Final = 6 * 60 * MINUTE_MS
# A little less than the poller's period, so that each poll has a point.
TOTALS_STEP_MS: Final = 1_500
THINGS_STEP_MS: Final = 10_000
MAX_THINGS: Final = 2_000

TOTALS: Final = (
    "records_per_second",
    "bytes_per_second",
    "consumed_per_second",
    "lag",
    "unstable_count",
    "size_bytes",
    "round_trip_ms",
    "requests_per_second",
    "errors_per_second",
    "request_p50_ms",
    "request_p99_ms",
    "received_bytes_per_second",
    "sent_bytes_per_second",
)
TOPIC: Final = ("records_per_second", "bytes_per_second", "lag")
GROUP: Final = ("lag", "records_per_second")
_CLUSTER: Final = "cluster"


@dataclass(frozen=True)
class Series:
    """Values over time, as charts draw them."""

    times_ms: list[int]
    values: dict[str, list[float | None]]
    """Each as long as the times; None where nothing is known."""


def thinned(series: Series, max_points: int) -> Series:
    """No more points than that: each is the mean of its neighbours, as far as they are known."""
    step = -(-len(series.times_ms) // max_points)
    if step <= 1:
        return series
    # The newest points stay together when a new one comes, or all of a chart would move.
    first = len(series.times_ms) % step
    spans = [
        slice(max(0, at), at + step)
        for at in range(first - step if first else 0, len(series.times_ms), step)
    ]
    return Series(
        [series.times_ms[span][-1] for span in spans],
        {name: [_mean(values[span]) for span in spans] for name, values in series.values.items()},
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 3) if known else None


class ClusterHistory:
    """Remembers snapshots as points; written by the poller's thread, and read by all others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = _Spans(TOTALS, TOTALS_STEP_MS, 1)
        self._topics = _Spans(TOPIC, THINGS_STEP_MS, MAX_THINGS)
        self._groups = _Spans(GROUP, THINGS_STEP_MS, MAX_THINGS)

    def add(self, snapshot: ClusterSnapshot, measured: Mapping[str, Number] | None = None) -> None:
        """Remember a snapshot, and what was measured beside it, by the names of `TOTALS`."""
        totals = _totals(snapshot, measured or {})
        topics = _topics(snapshot)
        groups = {
            name: (group.lag, group.records_per_second) for name, group in snapshot.groups.items()
        }
        with self._lock:
            self._totals.add(snapshot.at_ms, {_CLUSTER: totals})
            self._topics.add(snapshot.at_ms, topics)
            self._groups.add(snapshot.at_ms, groups)

    def add_gap(self, at_ms: int) -> None:
        """Remember that the cluster did not answer then."""
        with self._lock:
            for spans in (self._totals, self._topics, self._groups):
                spans.add(at_ms, {})

    def totals(self, span_ms: int = RECENT_MS) -> Series:
        """The cluster in the last `span_ms`: the values are those of `TOTALS`."""
        with self._lock:
            return self._totals.series(_CLUSTER, span_ms, None)

    def topic(self, name: str, span_ms: int = RECENT_MS) -> Series:
        """A topic: records and bytes written per second, and the lag of all groups in it."""
        with self._lock:
            return self._topics.series(name, span_ms, 0.0)

    def group(self, group_id: str, span_ms: int = RECENT_MS) -> Series:
        """A group: its lag, and the records that it consumes per second."""
        with self._lock:
            return self._groups.series(group_id, span_ms, 0.0)

    def sums(self, topics: Iterable[str], groups: Iterable[str], span_ms: int) -> Series:
        """Of some topics and groups what `totals` has of all: records and bytes written and read, and the lag."""
        with self._lock:
            times, written = self._topics.sums(topics, span_ms)
            _, read = self._groups.sums(groups, span_ms)
        return Series(
            times,
            {
                "records_per_second": written["records_per_second"],
                "bytes_per_second": written["bytes_per_second"],
                "consumed_per_second": read["records_per_second"],
                "lag": read["lag"],
            },
        )

    @property
    def left_out_count(self) -> int:
        """How many topics and groups do something, and are not kept, because there are too many."""
        return self._topics.left_out_count + self._groups.left_out_count


class _Spans:
    """The last minutes in small steps, and the last hours in large ones."""

    def __init__(self, fields: Sequence[str], step_ms: int, max_things: int) -> None:
        self._recent = Track(fields, step_ms, RECENT_MS, max_things)
        self._long = Track(fields, MINUTE_MS, LONG_MS, max_things)

    def add(self, at_ms: int, things: Mapping[str, Values]) -> None:
        self._recent.add(at_ms, things)
        self._long.add(at_ms, things)

    def series(self, name: str, span_ms: int, idle: float | None) -> Series:
        track = self._recent if span_ms <= RECENT_MS else self._long
        times, values = track.read(name, span_ms, idle)
        return Series(times, values)

    def sums(
        self, names: Iterable[str], span_ms: int
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        track = self._recent if span_ms <= RECENT_MS else self._long
        return track.sums(names, span_ms)

    @property
    def left_out_count(self) -> int:
        return self._recent.left_out_count


def _totals(snapshot: ClusterSnapshot, measured: Mapping[str, Number]) -> Values:
    totals = snapshot.totals
    return tuple(
        measured[name] if name in measured else getattr(totals, name, None) for name in TOTALS
    )


def _topics(snapshot: ClusterSnapshot) -> dict[str, Values]:
    lags: dict[str, int] = {}
    for group in snapshot.groups.values():
        for topic, lag in group.lags.items():
            lags[topic] = lags.get(topic, 0) + lag
    return {
        name: (topic.records_per_second, topic.bytes_per_second, lags.get(name, 0))
        for name, topic in snapshot.topics.items()
    }
