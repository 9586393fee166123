"""Records that iteration has taken from a poll and hands out one by one."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint

from ottla.client.model import EMPTY_RECORDS, ConsumerRecord, ConsumerRecords
from ottla.model import TopicPartition


class Delivery:
    """Iterates over the records of one poll and knows which of them nobody has seen.

    A program that breaks out of its loop has not had the rest: commits must not count it.
    """

    def __init__(self, records: ConsumerRecords = EMPTY_RECORDS) -> None:
        self._records: list[ConsumerRecord] = list(records)
        self.iterator: Iterator[ConsumerRecord] = iter(self._records)

    def undelivered(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that was not handed out."""
        # A list's iterator knows how many it has left: counting costs nothing in the loop.
        left = length_hint(self.iterator)
        firsts: dict[TopicPartition, int] = {}
        if left:
            for record in self._records[len(self._records) - left :]:
                firsts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return firsts

    def drop(self, partition: TopicPartition) -> None:
        """Hand out no more records of a partition."""
        left = [record for record in self.iterator if record[:2] != partition]
        self._records = left
        self.iterator = iter(left)

    def clear(self) -> None:
        """Hand out nothing any more, to those either who iterate already."""
        for _ in self.iterator:
            pass
