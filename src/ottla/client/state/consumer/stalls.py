"""Stalled partitions: those that have records to read and whose position does not move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.state.consumer.positions import AssignedPartition
from ottla.model import TopicPartition


class _Seen(NamedTuple):
    offset: int | None
    since_ms: float


class StallWatch:
    """Compares positions from time to time; `news` reports every stall once."""

    def __init__(self, timeout_ms: float, *, reads_committed: bool) -> None:
        self._timeout_ms = timeout_ms
        self._reads_committed = reads_committed
        self._seen: dict[TopicPartition, _Seen] = {}
        self._reported: dict[TopicPartition, None] = {}

    def look(self, states: Mapping[TopicPartition, AssignedPartition], now_ms: float) -> None:
        """Compare the positions with those of the last call."""
        seen: dict[TopicPartition, _Seen] = {}
        for partition, state in states.items():
            offset = None if state.position is None else state.position.offset
            before = self._seen.get(partition)
            if before is not None and before.offset == offset and not self._rests(state):
                seen[partition] = before
                continue
            seen[partition] = _Seen(offset, now_ms)
        self._seen = seen
        self._reported = {p: None for p in self._reported if p in seen and self._is_late(p, now_ms)}

    def stalled(self, now_ms: float) -> dict[TopicPartition, float]:
        """The stalled partitions, with the time since their last move in ms."""
        return {
            partition: now_ms - seen.since_ms
            for partition, seen in self._seen.items()
            if self._is_late(partition, now_ms)
        }

    def news(self, now_ms: float) -> dict[TopicPartition, float]:
        """The stalled partitions that were not reported yet."""
        found = {p: late for p, late in self.stalled(now_ms).items() if p not in self._reported}
        self._reported.update(dict.fromkeys(found))
        return found

    def _is_late(self, partition: TopicPartition, now_ms: float) -> bool:
        return self._timeout_ms > 0 and now_ms - self._seen[partition].since_ms >= self._timeout_ms

    def _rests(self, state: AssignedPartition) -> bool:
        """Whether it is paused or at its end. If the end is not known, no fetch has succeeded: that is a stall."""
        return state.paused or state.lag(committed_only=self._reads_committed) == 0
