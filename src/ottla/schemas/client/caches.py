"""Caches of what registries answered: bounded, and usable by many threads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

FOR_EVER = -1.0


class BoundedCache(Generic[K, V]):
    """At most `capacity` values; the one that was not used for the longest time is dropped."""

    def __init__(
        self,
        capacity: int,
        ttl_seconds: float = FOR_EVER,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._capacity = capacity
        self._ttl_seconds = ttl_seconds
        self._now = now
        self._values: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value; None if there is none, or if it is too old."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            value, stored_at = found
            if self._ttl_seconds >= 0 and self._now() - stored_at >= self._ttl_seconds:
                del self._values[key]
                return None
            self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Remember a value."""
        with self._lock:
            self._values[key] = (value, self._now())
            self._values.move_to_end(key)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)

    def drop_where(self, matches: Callable[[K], bool]) -> None:
        """Forget the values whose keys match."""
        with self._lock:
            for key in [key for key in self._values if matches(key)]:
                del self._values[key]

    def __len__(self) -> int:
        with self._lock:
            return len(self._values)
