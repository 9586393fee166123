"""Counts of records that failed and whose outcome the program has not asked for."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple


class Failed(NamedTuple):
    """How many records of a topic failed, and why the last of them did."""

    record_count: int
    error: Exception


class FailedRecords:
    """The failed records of one producer, by topic; safe in any thread.

    They are counted by batch: a program that asks for one record of a batch has learnt of the failure.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_topic: dict[str, Failed] = {}

    def add(self, topic: str, count: int, error: Exception) -> None:
        """The `count` records of a batch failed."""
        with self._lock:
            before = self._by_topic.get(topic)
            already = before.record_count if before else 0
            self._by_topic[topic] = Failed(already + count, error)

    def remove(self, topic: str, count: int) -> None:
        """The program has asked for the outcome of a batch that was added."""
        with self._lock:
            before = self._by_topic.pop(topic)
            if before.record_count > count:
                self._by_topic[topic] = before._replace(record_count=before.record_count - count)

    def by_topic(self) -> dict[str, Failed]:
        """The records that are left."""
        with self._lock:
            return dict(self._by_topic)
