"""What a consumer counts and measures, under the names of Kafka's metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from ottla.client.state.positions import AssignedPartition
from ottla.model import TopicPartition

# Averages and maxima are over the last so many, as Kafka's are over the last minute.
_LATENCIES_KEPT: Final = 256


class ConsumerMetrics:
    """Counters of fetches and polls."""

    def __init__(self, *, reads_committed: bool) -> None:
        self._reads_committed = reads_committed
        self.records_consumed = 0
        self.bytes_consumed = 0
        self.fetches = 0
        self.throttled_ms = 0
        self.polls = 0
        self.last_poll: float | None = None
        self.longest_poll_gap = 0.0
        self._latencies: deque[float] = deque(maxlen=_LATENCIES_KEPT)
        self._sizes: deque[int] = deque(maxlen=_LATENCIES_KEPT)

    def fetch_answered(self, seconds: float, throttle_ms: int, size_bytes: int) -> None:
        """A broker answered a fetch."""
        self.fetches += 1
        self.throttled_ms += throttle_ms
        self._latencies.append(seconds)
        self._sizes.append(size_bytes)

    def polled(self, now: float) -> None:
        """The user asked for records."""
        if self.last_poll is not None:
            self.longest_poll_gap = max(self.longest_poll_gap, now - self.last_poll)
        self.last_poll = now
        self.polls += 1

    def report(
        self, assigned: Mapping[TopicPartition, AssignedPartition], now: float
    ) -> dict[str, float]:
        """All values by name; those of partitions have the partition behind them."""
        values: dict[str, float] = {
            "records-consumed-total": self.records_consumed,
            "bytes-consumed-total": self.bytes_consumed,
            "fetch-total": self.fetches,
            "fetch-throttle-time-total": self.throttled_ms,
            "poll-total": self.polls,
            "time-between-poll-max": self.longest_poll_gap * 1000,
            "assigned-partitions": len(assigned),
        }
        if self.last_poll is not None:
            values["last-poll-seconds-ago"] = now - self.last_poll
        if self._latencies:
            values["fetch-latency-avg"] = sum(self._latencies) / len(self._latencies) * 1000
            values["fetch-latency-max"] = max(self._latencies) * 1000
            values["fetch-size-avg"] = sum(self._sizes) / len(self._sizes)
            values["fetch-size-max"] = max(self._sizes)
        lags = {}
        for partition, state in assigned.items():
            lag = state.lag(committed_only=self._reads_committed)
            if lag is not None:
                lags[partition] = lag
                values[f"records-lag.{partition}"] = lag
            if state.position is not None and state.log_start_offset is not None:
                lead = max(0, state.position.offset - state.log_start_offset)
                values[f"records-lead.{partition}"] = lead
        if lags:
            values["records-lag-max"] = max(lags.values())
        return values
