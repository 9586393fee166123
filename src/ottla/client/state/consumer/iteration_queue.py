"""The records of a poll that iteration over a consumer returns one by one."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint

from ottla.client.model import EMPTY_RECORDS, ConsumerRecord, ConsumerRecords
from ottla.model import TopicPartition


class IterationQueue:
    """Iterates over the records of one poll, and knows which of them the program has not seen.

    A program that leaves its loop has not seen the rest, which commits must not include.
    """

    def __init__(self, records: ConsumerRecords = EMPTY_RECORDS) -> None:
        self._records: list[ConsumerRecord] = list(records)
        self.iterator: Iterator[ConsumerRecord] = iter(self._records)

    @property
    def is_exhausted(self) -> bool:
        """Whether iteration has returned all records."""
        return not length_hint(self.iterator)

    def undelivered(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that iteration has not returned."""
        # A list's iterator knows how many elements are left, so that iteration need not count.
        left = length_hint(self.iterator)
        firsts: dict[TopicPartition, int] = {}
        if left:
            for record in self._records[len(self._records) - left :]:
                firsts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return firsts

    def drop(self, partition: TopicPartition) -> None:
        """Remove the records of a partition."""
        left = [record for record in self.iterator if record[:2] != partition]
        self._records = left
        self.iterator = iter(left)

    def clear(self) -> None:
        """Remove all records, also for loops that iterate already."""
        for _ in self.iterator:
            pass
