"""What the shared engine counts, for the broker's metrics."""

from __future__ import annotations

from typing import Final

from ottla.histogram import Histogram

_BYTES: Final = tuple(float(1 << power) for power in range(10, 27, 2))


class LaneMetrics:
    """Of one lane: the bytes of flushes, and the seconds of their parts."""

    def __init__(self) -> None:
        self.flush_bytes = Histogram(_BYTES)
        self.wait_seconds = Histogram()  # from the first append of a flush until it is sealed
        self.commit_seconds = Histogram()
        self.unsettled_bytes = 0


class EngineMetrics:
    """Of one store."""

    def __init__(self) -> None:
        self.inline = LaneMetrics()
        self.objects = LaneMetrics()
        self.put_seconds = Histogram()
        self.append_seconds = Histogram()  # from the first append of a part until it is durable
        self.hedged_puts = 0
        self.failed_puts = 0
        self.repeated_commits = 0
        self.already_answers = 0
        self.fenced_answers = 0
        self.misplaced_answers = 0
        self.tail_hits = 0
        self.cold_hits = 0
        self.cold_loads = 0
        self.cold_bytes = 0
        self.heartbeat_seconds = Histogram()
        self.failed_heartbeats = 0
        self.opening_seconds = Histogram()
        self.lost_sessions = 0
        self.consolidated_logs = 0
        self.merged_logs = 0
        self.collected_objects = 0

    @property
    def unsettled_bytes(self) -> int:
        """Bytes that were appended and are not known to be durable."""
        return self.inline.unsettled_bytes + self.objects.unsettled_bytes
