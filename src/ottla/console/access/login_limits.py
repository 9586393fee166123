"""How often logins may fail: guessing is slow, and does not use up what the cluster lets the console's address fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.failed_logins import FailedLogins, address_block

# The answers to failed logins are that far apart. More than ten seconds of them, and further logins are refused: an
# address has ten guesses and then one in each second. A user has a hundred, so that no single address locks it out.
ADDRESS_SECONDS: Final = 1.0
USER_SECONDS: Final = 0.1
# A broker counts the console as one address: thirty failed logins with two or three mechanisms are all that it allows.
TOTAL_SECONDS: Final = 1 / 3


class LoginLimits:
    """The failed logins by address, by user and in all; `now` is a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._addresses = FailedLogins()
        self._users = FailedLogins()
        self._total = FailedLogins()

    def is_too_much(self, address: str, user: str | None) -> bool:
        """Whether a login has to wait until others are forgotten; `user` is None for tokens."""
        now = self._now()
        if self._addresses.is_too_much(address_block(address), now):
            return True
        if user is None:
            return False
        return self._users.is_too_much(user, now) or self._total.is_too_much("", now)

    def failed(self, address: str, user: str | None) -> float:
        """Notes a failure; returns how many seconds its answer waits."""
        now = self._now()
        waits = [self._addresses.delay_seconds(address_block(address), ADDRESS_SECONDS, now)]
        if user is not None:
            waits.append(self._users.delay_seconds(user, USER_SECONDS, now))
            self._total.delay_seconds("", TOTAL_SECONDS, now)
        return max(waits)
