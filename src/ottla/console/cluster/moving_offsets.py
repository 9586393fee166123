"""How fast offsets move: of partitions as they are written, and of groups as they read."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import Final

from ottla.model import TopicPartition

Offsets = Mapping[TopicPartition, int]

# What has moved within this time is asked for in each round.
HOT_SECONDS: Final = 60.0
# Batches and transactions come every few seconds, and so do commits: the rate of a shorter time would jump between
# nothing and a lot.
WRITE_WINDOW_SECONDS: Final = 10.0
GROUP_WINDOW_SECONDS: Final = 12.0


class EndOffsets:
    """The ends of partitions. A partition is compared with its own last answer, however long ago that was."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self._told_at: dict[TopicPartition, float] = {}
        self._moved_at: dict[TopicPartition, float] = {}
        # The answers of a window, of partitions that move in it.
        self._progress: dict[TopicPartition, deque[tuple[float, int]]] = {}
        self._compared: set[str] = set()

    def add(self, found: Offsets, at: float) -> None:
        """The ends that were told at a time in seconds."""
        for key, offset in found.items():
            before = self.offsets.get(key)
            self.offsets[key] = offset
            told_at = self._told_at.get(key, at)
            self._told_at[key] = at
            if before is None:
                continue
            self._compared.add(key.topic)
            if offset != before and at > told_at:
                self._moved_at[key] = at
            if offset < before:
                # An end that goes back is another log under the same name: nobody knows how fast it grew.
                self._progress.pop(key, None)
            elif at > told_at and (offset > before or key in self._progress):
                self._add_progress(key, (told_at, before), (at, offset))

    def _add_progress(
        self, key: TopicPartition, before: tuple[float, int], now: tuple[float, int]
    ) -> None:
        progress = self._progress.setdefault(key, deque([before]))
        progress.append(now)
        oldest = now[0] - WRITE_WINDOW_SECONDS
        # An answer from long ago says nothing about a partition that is asked often again.
        while len(progress) > 2 and (
            progress[1][0] <= oldest or progress[1][0] - progress[0][0] > WRITE_WINDOW_SECONDS
        ):
            progress.popleft()
        if progress[0][1] == now[1]:
            del self._progress[key]

    def hot(self, at: float) -> list[TopicPartition]:
        """The partitions that have moved lately."""
        for key in [key for key, moved_at in self._moved_at.items() if at - moved_at > HOT_SECONDS]:
            del self._moved_at[key]
        return list(self._moved_at)

    def forget(self, topics: Container[str]) -> None:
        """These topics are gone, or others have their names now."""
        for key in [key for key in self.offsets if key.topic in topics]:
            for kept in (self.offsets, self._told_at, self._moved_at, self._progress):
                kept.pop(key, None)
        self._compared = {topic for topic in self._compared if topic not in topics}

    def stand_still(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are not asked for now: they have no leader."""
        for key in partitions:
            self._progress.pop(key, None)
            self._moved_at.pop(key, None)

    def rates(self) -> dict[str, float]:
        """Offsets per second by topic; topics that were told only once have none."""
        found = dict.fromkeys(self._compared, 0.0)
        for key, progress in self._progress.items():
            (first_at, first), (last_at, last) = progress[0], progress[-1]
            rate = (last - first) / (last_at - first_at)
            found[key.topic] = found.get(key.topic, 0.0) + rate
        return found


class GroupOffsets:
    """What groups have committed, and how fast they get on."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self._moved_at: dict[str, float] = {}
        self._progress: dict[str, deque[tuple[float, int]]] = {}

    def add(self, group_id: str, offsets: Offsets, at: float, *, has_members: bool) -> None:
        """What a group has committed; a group without members reads nothing, so its offsets were set."""
        before = self.committed.get(group_id)
        self.committed[group_id] = dict(offsets)
        progress = self._progress.setdefault(group_id, deque())
        read = progress[-1][1] if progress else 0
        if before is not None and before != offsets:
            self._moved_at[group_id] = at
            if has_members:
                read += sum(
                    max(0, offset - before[key]) for key, offset in offsets.items() if key in before
                )
        progress.append((at, read))
        while len(progress) > 2 and progress[1][0] <= at - GROUP_WINDOW_SECONDS:
            progress.popleft()

    def is_hot(self, group_id: str, at: float) -> bool:
        """Whether its offsets have moved lately."""
        moved_at = self._moved_at.get(group_id)
        return moved_at is not None and at - moved_at <= HOT_SECONDS

    def keep_only(self, groups: Container[str]) -> None:
        """All others are gone."""
        for group_id in [group_id for group_id in self._progress if group_id not in groups]:
            for kept in (self.committed, self._moved_at, self._progress):
                kept.pop(group_id, None)

    def rates(self) -> dict[str, float]:
        """Offsets per second by group; groups that were told only once have none."""
        return {
            group_id: (progress[-1][1] - progress[0][1]) / (progress[-1][0] - progress[0][0])
            for group_id, progress in self._progress.items()
            if len(progress) > 1 and progress[-1][0] > progress[0][0]
        }


class GrowingLogs:
    """The sizes of topics, and how fast they grow."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._told_at: float | None = None
        self.rates: dict[str, float] = {}
        """Bytes per second by topic."""

    def add(self, sizes: Mapping[str, int], at: float) -> None:
        """The sizes of all topics. A log that shrinks was cleaned up: its growth is not known then."""
        if self._told_at is not None and at > self._told_at:
            seconds = at - self._told_at
            self.rates = {
                topic: (size - self._sizes[topic]) / seconds
                for topic, size in sizes.items()
                if topic in self._sizes and size >= self._sizes[topic]
            }
        self._sizes, self._told_at = dict(sizes), at

    def forget(self, topics: Container[str]) -> None:
        """These topics are gone, or others have their names now."""
        for kept in (self._sizes, self.rates):
            for topic in [topic for topic in kept if topic in topics]:
                del kept[topic]
