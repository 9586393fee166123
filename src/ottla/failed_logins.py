"""Failed logins by address or by user: each takes its time, one after the other, so that guessing is slow."""

from __future__ import annotations

import ipaddress
from typing import Final

# Whoever has more failures than fit into this time is refused until some of it has passed.
MAX_DELAY_SECONDS: Final = 10.0
MAX_SUBJECTS: Final = 10_000


class FailedLogins:
    """When the answers to the failed logins of each subject are due: of an address block, or of a user.

    The answers of a subject are `delay` apart however many connections it uses: with 100 ms it has a hundred guesses
    and then ten in each second.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}  # by the first answer that is due

    def delay_seconds(self, subject: str, delay_seconds: float, now: float) -> float:
        """Notes a failed login; returns how long its answer waits."""
        until = max(now, self._until.pop(subject, now)) + delay_seconds
        if len(self._until) >= MAX_SUBJECTS:
            self._forget(now)
        self._until[subject] = until
        return min(until - now, MAX_DELAY_SECONDS)

    def is_too_much(self, subject: str, now: float) -> bool:
        """Whether a further login of a subject would have to wait for too long."""
        until = self._until.get(subject) if self._until else None
        return until is not None and until - now >= MAX_DELAY_SECONDS

    def _forget(self, now: float) -> None:
        self._until = {subject: until for subject, until in self._until.items() if until > now}
        while len(self._until) >= MAX_SUBJECTS:
            del self._until[next(iter(self._until))]


def address_block(host: str) -> str:
    """What one client may have: an IPv4 address, or a /64 of IPv6."""
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        return host
