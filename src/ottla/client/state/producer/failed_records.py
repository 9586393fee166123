"""Records that were not written and whose outcome the program has not asked for."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple


class Failed(NamedTuple):
    """How many records of a topic failed, and why the last of them did."""

    record_count: int
    error: Exception


class FailedRecords:
    """Those of one producer, by topic; safe in any thread.

    They are counted by batch: a program that looks at one record of a batch has learnt of the failure.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_topic: dict[str, Failed] = {}

    def add(self, topic: str, count: int, error: Exception) -> None:
        """So many records failed together."""
        with self._lock:
            before = self._by_topic.get(topic)
            already = before.record_count if before else 0
            self._by_topic[topic] = Failed(already + count, error)

    def remove(self, topic: str, count: int) -> None:
        """The program has asked for the outcome of so many that were added together."""
        with self._lock:
            before = self._by_topic.pop(topic)
            if before.record_count > count:
                self._by_topic[topic] = before._replace(record_count=before.record_count - count)

    def by_topic(self) -> dict[str, Failed]:
        """What is left."""
        with self._lock:
            return dict(self._by_topic)
