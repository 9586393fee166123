"""How fast a node accepts connections: of an address by its quota, of a listener and of all by options (KIP-612)."""

from __future__ import annotations

from collections import deque
from typing import Final

from ottla.broker.options import NodeOptions
from ottla.broker.security.quotas import NodeQuotas
from ottla.config.listeners import PREFIX
from ottla.config.options import INT_MAX
from ottla.core.security.quotas.entities import QuotaKind
from ottla.core.security.quotas.rates import WindowedRate
from ottla.core.security.quotas.usage import Usage

# The connections that are held before they are closed, and those that wait to be accepted; others are closed at once.
MAX_HELD: Final = 1000
MAX_WAITING: Final = 1024
OVER_QUOTA: Final = "its address exceeds its connection_creation_rate"
BUSY: Final = "too many connections wait for max.connection.creation.rate"


class _Accepting:
    """A line of connections, as at the door of a listener of Kafka: each waits until those before it are accepted."""

    def __init__(self) -> None:
        self.rate = WindowedRate()
        self._ends_ms: deque[int] = deque()

    def is_full(self, now_ms: int) -> bool:
        while self._ends_ms and self._ends_ms[0] <= now_ms:
            self._ends_ms.popleft()
        return len(self._ends_ms) >= MAX_WAITING

    def next_turn_ms(self, now_ms: int) -> int:
        """When the next one may be accepted."""
        return max(now_ms, self._ends_ms[-1]) if self._ends_ms else now_ms

    def wait_until(self, end_ms: int) -> None:
        self._ends_ms.append(end_ms)


class ConnectionRates:
    """What a node's clients have used of the rates of connections."""

    def __init__(self, options: NodeOptions, quotas: NodeQuotas) -> None:
        self._options = options
        self._quotas = quotas
        self._of_address: Usage[str, WindowedRate] = Usage(WindowedRate)
        self._of_all = WindowedRate()
        self._listeners: dict[str, _Accepting] = {}

    def excess_ms(self, address: str) -> int:
        """For how long an address is over its quota; 0 if it may connect. What it may not does not count."""
        limit = self._quotas.table.of_address(address)
        if limit is None:
            return 0
        windows, now_ms = self._quotas.windows, self._quotas.now_ms()
        rate = self._of_address.of(address, now_ms)
        rate.record(1, windows, now_ms)
        excess_ms = min(rate.throttle_ms(limit, windows, now_ms), windows.size_ms)
        if excess_ms:
            rate.record(-1, windows, now_ms)
            self._quotas.throttles.count(QuotaKind.CONNECTION_CREATION_RATE, excess_ms)
        return excess_ms

    def wait_ms(self, listener: str) -> int | None:
        """How long a connection waits until it is accepted; None if too many wait already."""
        config = self._options.config
        of_all = config.max_connection_creation_rate
        of_listener = config.scoped.get(
            f"{PREFIX}{listener.lower()}.max.connection.creation.rate", INT_MAX
        )
        if of_all == INT_MAX and of_listener == INT_MAX:
            return 0
        windows, now_ms = self._quotas.windows, self._quotas.now_ms()
        accepting = self._listeners.setdefault(listener, _Accepting())
        if accepting.is_full(now_ms):
            return None
        turn_ms = accepting.next_turn_ms(now_ms)
        longest_ms = 0
        for rate, limit in ((self._of_all, of_all), (accepting.rate, of_listener)):
            rate.record(1, windows, turn_ms)
            wait_ms = min(rate.throttle_ms(limit, windows, turn_ms), windows.size_ms)
            longest_ms = max(longest_ms, wait_ms)
        if longest_ms or turn_ms > now_ms:
            accepting.wait_until(turn_ms + longest_ms)
            waits_ms = turn_ms + longest_ms - now_ms
            self._quotas.throttles.count(QuotaKind.CONNECTION_CREATION_RATE, waits_ms)
            return waits_ms
        return 0

    def forget_idle(self) -> None:
        """Forgets addresses from which nobody has connected for an hour."""
        self._of_address.forget_idle(self._quotas.now_ms())
