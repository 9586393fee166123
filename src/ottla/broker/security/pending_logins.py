"""The connections whose clients have not authenticated themselves yet: limited in number and in time."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

# Apart from max.connections. One more closes the oldest, since a login that gets on takes milliseconds.
MAX_PENDING: Final = 1000
DEADLINE_SECONDS: Final = 10.0


class PendingLogin(Protocol):
    """A connection whose client has not authenticated itself."""

    def give_up_login(self, reason: str) -> None: ...


class PendingLogins:
    """The pending logins of a node, the oldest first."""

    def __init__(self) -> None:
        self._deadlines: dict[PendingLogin, asyncio.TimerHandle] = {}
        self.given_up = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, connection: PendingLogin) -> None:
        if len(self._deadlines) >= MAX_PENDING:
            self._give_up(
                next(iter(self._deadlines)),
                f"more than {MAX_PENDING} clients have not authenticated themselves, and it is the oldest",
            )
        self._deadlines[connection] = asyncio.get_running_loop().call_later(
            DEADLINE_SECONDS,
            self._give_up,
            connection,
            f"the client has not authenticated itself within {DEADLINE_SECONDS:.0f} s",
        )

    def remove(self, connection: PendingLogin) -> None:
        """The login is over, or the connection is lost."""
        deadline = self._deadlines.pop(connection, None)
        if deadline is not None:
            deadline.cancel()

    def _give_up(self, connection: PendingLogin, reason: str) -> None:
        self.remove(connection)
        self.given_up += 1
        connection.give_up_login(reason)
