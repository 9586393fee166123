"""When a member sends heartbeats, gives its coordinator up, or leaves because nobody polls."""

from __future__ import annotations

from enum import Enum

from ottla.client.state.backoff import Backoff


class Pulse(Enum):
    """What is due."""

    WAIT = "nothing"
    SEND = "a heartbeat"
    SESSION_EXPIRED = "the coordinator has not answered for a session timeout"
    POLL_EXPIRED = "nobody has polled for max.poll.interval.ms"


class Heartbeats:
    """Three deadlines: of the next heartbeat, of the session, of the user's next poll."""

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
        self.last_sent_ms: float | None = None
        self.last_answered_ms: float | None = None
        self.restart(now_ms)

    def restart(self, now_ms: float) -> None:
        """Begin anew: the member has joined."""
        self._next_ms = now_ms + self._interval_ms
        self.restart_session(now_ms)
        self.polled(now_ms)

    def restart_session(self, now_ms: float) -> None:
        """Another coordinator gets a whole session timeout."""
        self._session_end_ms = now_ms + self._session_timeout_ms

    def polled(self, now_ms: float) -> None:
        """The user polls."""
        self._poll_end_ms = now_ms + self._max_poll_interval_ms

    def sent(self, now_ms: float) -> None:
        """A heartbeat goes out."""
        self.last_sent_ms = now_ms
        self._next_ms = now_ms + self._interval_ms

    def answered(self, now_ms: float) -> None:
        """The coordinator knows that the member lives."""
        self._failures = 0
        self.last_answered_ms = now_ms
        self.restart_session(now_ms)

    def failed(self, now_ms: float, random_unit: float) -> None:
        """Try again sooner than at the next interval."""
        self._next_ms = now_ms + self._retry.delay_ms(self._failures, random_unit)
        self._failures += 1

    def due(self, now_ms: float) -> Pulse:
        """What to do now; the session comes first, since a heartbeat would only go the same way."""
        if now_ms >= self._session_end_ms:
            return Pulse.SESSION_EXPIRED
        if now_ms >= self._poll_end_ms:
            return Pulse.POLL_EXPIRED
        return Pulse.SEND if now_ms >= self._next_ms else Pulse.WAIT

    def next_ms(self) -> float:
        """When `due` may say something else than it says now."""
        return min(self._next_ms, self._session_end_ms, self._poll_end_ms)
