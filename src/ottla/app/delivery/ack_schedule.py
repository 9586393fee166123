"""When finished records are committed."""

from __future__ import annotations

from typing import Final

from ottla.app.declarations.listener_spec import Ack, AckMode

DEFAULT_INTERVAL_SECONDS: Final = 5.0
"""Finished records are committed after this time at the latest, whatever the ack mode."""


class AckSchedule:
    """Counts finished records since the last commit. Times are seconds of any steady clock."""

    def __init__(self, ack: Ack, now: float) -> None:
        self._mode = ack.mode
        self._records = ack.records if ack.mode is AckMode.EVERY else None
        seconds = ack.seconds if ack.mode is AckMode.EVERY else None
        self._seconds = DEFAULT_INTERVAL_SECONDS if seconds is None else seconds
        self._committed_at = now
        self._finished_count = 0
        self._has_batch = False
        self._is_hurried = False

    def hurry(self) -> None:
        """Commit at the next opportunity, whatever the ack mode."""
        self._is_hurried = True

    def finished(self, records: int) -> bool:
        """So many records were finished; whether a commit is due for that."""
        self._finished_count += records
        if self._mode is AckMode.EVERY:
            return self._records is not None and self._finished_count >= self._records
        # What a handler acknowledges by hand is committed at once.
        return self._mode in (AckMode.RECORD, AckMode.MANUAL)

    def finished_batch(self) -> bool:
        """All records of a poll were finished; whether a commit is due for that."""
        self._has_batch = True
        return self._mode is AckMode.BATCH

    def is_due(self, now: float) -> bool:
        """Whether to commit now, if there is something to commit."""
        if self._is_hurried or now >= self._committed_at + self._seconds:
            return True
        if self._mode is AckMode.BATCH:
            return self._has_batch
        if self._mode is AckMode.EVERY:
            return self._records is not None and self._finished_count >= self._records
        return self._finished_count > 0

    def committing(self, now: float) -> None:
        """A commit of everything that is finished was sent."""
        self._committed_at = now
        self._finished_count = 0
        self._has_batch = self._is_hurried = False

    def seconds_left(self, now: float) -> float:
        """Until a commit is due for its time."""
        return max(0.0, self._committed_at + self._seconds - now)
