"""The handshakes that go on: each has a deadline, and their number a limit, so that silent clients hold nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

DEADLINE_SECONDS: Final = 8.0
MAX_HANDSHAKES: Final = 1000
CHECK_MS: Final = 1000


class Handshaking(Protocol):
    """A connection during its handshake."""

    @property
    def waits_for_client(self) -> bool: ...

    def fail_handshake(self, reason: str) -> None: ...


class Handshakes:
    """All that a node has at a time, the oldest first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now  # in seconds
        self._began: dict[Handshaking, float] = {}

    def begin(self, connection: Handshaking) -> None:
        if len(self._began) >= MAX_HANDSHAKES:
            self._make_room()
        self._began[connection] = self._now()

    def end(self, connection: Handshaking) -> None:
        """The handshake is over, in whatever way."""
        self._began.pop(connection, None)

    def _make_room(self) -> None:
        """Gives up the one that has waited for its client the longest."""
        for connection in self._began:
            if connection.waits_for_client:
                connection.fail_handshake(f"{MAX_HANDSHAKES} others began a handshake after it")
                return

    def expire(self) -> None:
        """Gives up those that are not finished in time; to be called about once a second."""
        latest = self._now() - DEADLINE_SECONDS
        late = []
        for connection, began in self._began.items():
            if began > latest:
                break
            late.append(connection)
        for connection in late:
            connection.fail_handshake(
                f"its handshake was not finished within {DEADLINE_SECONDS:.0f} s"
            )

    def __len__(self) -> int:
        return len(self._began)
