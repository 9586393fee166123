"""What clients have used of their quotas: one record for all that share a quota, and only for as many as fit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# As in Kafka: what was not used for an hour is forgotten.
IDLE_MS: Final = 3_600_000
# Clients choose their client ids: there may be any number, of any length.
MAX_TRACKED: Final = 10_000
MAX_NAME_CHARS: Final = 200


class Usage(Generic[K, T]):
    """Records by key, ordered by their last use; when there are too many, the longest unused are forgotten."""

    def __init__(self, make: Callable[[], T], most: int = MAX_TRACKED) -> None:
        self._make = make
        self._most = most
        self._records: dict[K, tuple[T, int]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def of(self, key: K, now_ms: int) -> T:
        """The record of a key; a new one if it has none."""
        known = self._records.pop(key, None)
        record = self._make() if known is None else known[0]
        self._records[key] = (record, now_ms)
        if len(self._records) > self._most:
            del self._records[next(iter(self._records))]
        return record

    def forget_idle(self, now_ms: int) -> None:
        """Forgets what was not used for an hour."""
        idle = []
        for key, (_, used_ms) in self._records.items():
            if now_ms - used_ms <= IDLE_MS:
                break
            idle.append(key)
        for key in idle:
            del self._records[key]


def short(name: str) -> str:
    """A name of bounded length that is different for different names."""
    if len(name) <= MAX_NAME_CHARS:
        return name
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest() + str(len(name))
