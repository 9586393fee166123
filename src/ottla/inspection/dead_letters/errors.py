"""Why letters cannot be read or moved. What to do about it depends on who asks."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import OttlaError
from ottla.model import TopicPartition


class LetterError(OttlaError):
    """Letters cannot be read, or not be moved as was asked."""


class UnreadPartitionsError(LetterError):
    """The leaders of some partitions did not answer in time."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(f"{', '.join(map(str, sorted(partitions)))} could not be read to the end")


class UnreadableNoteError(LetterError):
    """What was noted of a partition, which letters of it are done, has another form."""

    def __init__(self, topic: str, partition: int, reason: object) -> None:
        super().__init__(
            f"topic {topic} has a record about partition {partition} that cannot be read ({reason})"
        )


class NoPartitionError(LetterError):
    """The dead-letter topic has no such partition."""

    def __init__(self, topic: str, partition: int, partition_count: int) -> None:
        super().__init__(f"topic {topic} has no partition {partition}")
        self.partition_count = partition_count


class NoHistoryError(LetterError):
    """A letter has no headers, as a record of somebody else's in a dead-letter topic."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place} has no headers that say where it came from")


class NoGroupError(LetterError):
    """A letter shall go to its group, which its headers do not tell."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place} has no header with its group")


class NoTargetError(LetterError):
    """A topic to which letters would go does not exist; sending to it must not create it."""

    def __init__(self, target: str, letters_topic: str) -> None:
        super().__init__(
            f"there is no topic {target}, to which letters of {letters_topic} would go"
        )
