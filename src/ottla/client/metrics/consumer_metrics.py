"""Metrics of a consumer."""

from __future__ import annotations

import math

from ottla.client.metrics.kafka_metrics import Clock, Metrics, monotonic_ms
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.model import TopicPartition


class ConsumerMetrics(Metrics):
    """Metrics of fetches, polls and lags."""

    def __init__(
        self,
        subscriptions: SubscriptionState,
        *,
        reads_committed: bool,
        clock_ms: Clock = monotonic_ms,
    ) -> None:
        super().__init__(clock_ms)
        self.now_ms = clock_ms
        self._subscriptions = subscriptions
        self._reads_committed = reads_committed
        self.last_poll_ms: float | None = None
        self._poll_ended_ms: float | None = None
        self.last_progress_ms: float | None = None
        self._records = self.meter("records-consumed")
        self._bytes = self.meter("bytes-consumed")
        self._fetches = self.meter("fetch")
        self._latency = self.distribution("fetch-latency")
        self._size = self.distribution("fetch-size")
        self._throttle = self.distribution("fetch-throttle-time")
        self._per_request = self.distribution("records-per-request")
        self._between_polls = self.distribution("time-between-poll")
        self.gauge("last-poll-seconds-ago", self._last_poll_seconds)
        self.gauge("assigned-partitions", lambda: len(subscriptions.states()))
        self.gauge("records-lag-max", lambda: max(self.lags().values(), default=math.nan))

    def poll_began(self) -> None:
        """A poll begins."""
        self._poll_began_at(self.now_ms())

    def polled_lent(self, now_ms: float) -> None:
        """A poll has returned records on the program's thread."""
        self._poll_began_at(now_ms)
        self._poll_ended_ms = self.last_progress_ms = now_ms

    def _poll_began_at(self, now_ms: float) -> None:
        if self.last_poll_ms is not None:
            self._between_polls.record(now_ms - self.last_poll_ms)
        self.last_poll_ms = now_ms
        self._poll_ended_ms = None

    def poll_ended(self) -> None:
        """A poll returns."""
        self._poll_ended_ms = self.now_ms()

    def seconds_since_poll(self) -> float | None:
        """Seconds since the last poll returned: 0 during a poll, None before the first one."""
        if self._poll_ended_ms is None:
            return None if self.last_poll_ms is None else 0.0
        return (self.now_ms() - self._poll_ended_ms) / 1000

    def progressed(self) -> None:
        """A position has moved."""
        self.last_progress_ms = self.now_ms()

    def fetched(self, latency_ms: float, throttle_ms: float, size_bytes: int) -> None:
        """A broker answered a fetch."""
        self._fetches.record()
        self._latency.record(latency_ms)
        self._throttle.record(throttle_ms)
        self._size.record(size_bytes)

    def consumed(self, record_count: int, size_bytes: int) -> None:
        """Polls have returned all records of a fetched partition."""
        self._records.record(record_count)
        self._bytes.record(size_bytes)
        self._per_request.record(record_count)

    def lags(self) -> dict[TopicPartition, int]:
        """The lag of each partition, where it is known."""
        lags = {}
        for partition, state in list(self._subscriptions.states().items()):
            lag = state.lag(committed_only=self._reads_committed)
            if lag is not None:
                lags[partition] = lag
        return lags

    def snapshot(self) -> dict[str, float]:
        """All values at this moment, with the lag and lead of every partition."""
        values = super().snapshot()
        for (topic, partition), lag in self.lags().items():
            values[f"records-lag{{topic={topic},partition={partition}}}"] = float(lag)
        for (topic, partition), state in list(self._subscriptions.states().items()):
            if state.position is not None and state.log_start_offset is not None:
                lead = max(0, state.position.offset - state.log_start_offset)
                values[f"records-lead{{topic={topic},partition={partition}}}"] = float(lead)
        return values

    def _last_poll_seconds(self) -> float:
        if self.last_poll_ms is None:
            return -1.0  # as Kafka has it
        return (self.now_ms() - self.last_poll_ms) / 1000
