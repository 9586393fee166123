"""Metrics of a group member."""

from __future__ import annotations

import math

from ottla.client.metrics.kafka_metrics import Metrics, monotonic_ms

# Kafka's names for the count and the duration of requests.
_MEASURED_APIS = {
    "JoinGroup": ("join", "join-time"),
    "SyncGroup": ("sync", "sync-time"),
    "OffsetCommit": ("commit", "commit-latency"),
}

_HEARTBEATS = ("Heartbeat", "ConsumerGroupHeartbeat")


class GroupMetrics:
    """Metrics of heartbeats, rebalances and commits, added to those of the consumer."""

    def __init__(self, metrics: Metrics) -> None:
        self._heartbeats = metrics.meter("heartbeat")
        self._heartbeat_time = metrics.distribution("heartbeat-response-time")
        self._requests = {
            api: (metrics.meter(count), metrics.distribution(duration))
            for api, (count, duration) in _MEASURED_APIS.items()
        }
        self._rebalances = metrics.distribution("rebalance-latency")
        metrics.gauge("rebalance-latency-total", lambda: self._rebalances.total)
        metrics.gauge("rebalance-total", lambda: self._rebalances.count)
        self._failed = metrics.meter("failed-rebalance")
        self._callbacks = {
            name: metrics.distribution(f"partition-{name}-latency")
            for name in ("revoked", "assigned", "lost")
        }
        metrics.gauge("last-rebalance-seconds-ago", lambda: _seconds_since(self._last_rebalance_ms))
        metrics.gauge("last-heartbeat-seconds-ago", lambda: _seconds_since(self._last_heartbeat_ms))
        self._last_rebalance_ms: float | None = None
        self._last_heartbeat_ms: float | None = None
        self._rebalance_began_ms: float | None = None

    def sent(self, api: str) -> None:
        """A request was sent to the coordinator."""
        if api in _HEARTBEATS:
            self._last_heartbeat_ms = monotonic_ms()

    def answered(self, api: str, duration_ms: float) -> None:
        """The coordinator answered."""
        if api in _HEARTBEATS:
            self._heartbeats.record()
            self._heartbeat_time.record(duration_ms)
        elif api in self._requests:
            count, duration = self._requests[api]
            count.record()
            duration.record(duration_ms)

    def rebalance_began(self) -> None:
        """The member joins; another attempt after a failure belongs to the same rebalance."""
        if self._rebalance_began_ms is None:
            self._rebalance_began_ms = monotonic_ms()

    def rebalance_ended(self) -> None:
        """The member has its assignment."""
        began_ms, self._rebalance_began_ms = self._rebalance_began_ms, None
        self._last_rebalance_ms = monotonic_ms()
        if began_ms is not None:
            self._rebalances.record(self._last_rebalance_ms - began_ms)

    def rebalance_failed(self) -> None:
        """The member has to join again."""
        self._failed.record()

    def listener_called(self, what: str, duration_ms: float) -> None:
        """The listener was called for partitions that were revoked, assigned or lost."""
        self._callbacks[what].record(duration_ms)


def _seconds_since(at_ms: float | None) -> float:
    return math.nan if at_ms is None else (monotonic_ms() - at_ms) / 1000
