"""The deadlines of a member: the next heartbeat, the end of its session, the program's next poll."""

from __future__ import annotations

from enum import Enum

from ottla.client.state.backoff import Backoff


class DueAction(Enum):
    """The action that is due."""

    WAIT = "nothing"
    SEND = "a heartbeat"
    SESSION_EXPIRED = "the coordinator has not answered for a session timeout"
    POLL_EXPIRED = "the program has not polled for max.poll.interval.ms"


class HeartbeatSchedule:
    """The three deadlines of a member in its group."""

    def __init__(
        self,
        *,
        interval_ms: float,
        session_timeout_ms: float,
        max_poll_interval_ms: float,
        retry: Backoff,
        now_ms: float,
    ) -> None:
        self._interval_ms = interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        self._retry = retry
        self._failures = 0
        self.last_answered_ms: float | None = None
        self.restart(now_ms)

    def restart(self, now_ms: float) -> None:
        """Restart all deadlines: the member has joined."""
        self._next_ms = now_ms + self._interval_ms
        self.restart_session(now_ms)
        self.polled(now_ms)

    def restart_session(self, now_ms: float) -> None:
        """Restart the session timeout, for a new coordinator."""
        self._session_end_ms = now_ms + self._session_timeout_ms

    def polled(self, now_ms: float) -> None:
        """The program polls."""
        self._poll_end_ms = now_ms + self._max_poll_interval_ms

    def sent(self, now_ms: float) -> None:
        """A heartbeat was sent."""
        self._next_ms = now_ms + self._interval_ms

    def join(self, now_ms: float, random_unit: float) -> None:
        """Send the first heartbeat, which joins: now, or after a pause if the last one failed."""
        self.polled(now_ms)
        pause_ms = self._retry.delay_ms(self._failures - 1, random_unit) if self._failures else 0
        self._next_ms = now_ms + pause_ms

    def expedite(self, now_ms: float) -> None:
        """Send a heartbeat now; only the pause after a failure still applies."""
        if not self._failures:
            self._next_ms = now_ms

    def follow_interval(self, interval_ms: float, now_ms: float) -> None:
        """The coordinator says how often it expects heartbeats."""
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            self._next_ms = now_ms + interval_ms

    def answered(self, now_ms: float) -> None:
        """The coordinator answered."""
        self._failures = 0
        self.last_answered_ms = now_ms
        self.restart_session(now_ms)

    def failed(self, now_ms: float, random_unit: float) -> None:
        """The heartbeat failed: retry sooner than at the next interval."""
        self._next_ms = now_ms + self._retry.delay_ms(self._failures, random_unit)
        self._failures += 1

    def due(self, now_ms: float) -> DueAction:
        """The action that is due; an expired session comes first, since heartbeats go to the same coordinator."""
        if now_ms >= self._session_end_ms:
            return DueAction.SESSION_EXPIRED
        if now_ms >= self._poll_end_ms:
            return DueAction.POLL_EXPIRED
        return DueAction.SEND if now_ms >= self._next_ms else DueAction.WAIT

    def next_ms(self) -> float:
        """When the result of `due` may change."""
        return min(self._next_ms, self._session_end_ms, self._poll_end_ms)
