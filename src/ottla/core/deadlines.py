"""Deadlines by key, without a clock of their own."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """One deadline per key.

    A deadline that moves later, as a heartbeat moves a session's, only changes the dict: the heap keeps the earlier
    time and is corrected when that time comes.
    """

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}
        # The number keeps keys with the same deadline in the order in which they were set.
        self._heap: list[tuple[int, int, K]] = []
        self._queued_ms: dict[K, int] = {}
        self._count = 0

    def set(self, key: K, due_ms: int) -> None:
        self._due_ms[key] = due_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._push(key, due_ms)

    def cancel(self, key: K) -> None:
        self._due_ms.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._due_ms

    def __len__(self) -> int:
        return len(self._due_ms)

    def next_ms(self) -> int | None:
        """When to look for due keys again; never later than the first deadline.

        It may be earlier, as long as one that has moved later is not corrected.
        """
        while self._heap:
            queued_ms, _, key = self._heap[0]
            if self._queued_ms.get(key) == queued_ms:
                if key in self._due_ms:
                    return queued_ms
                del self._queued_ms[key]
            # The key was cancelled, or is queued at another time.
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now_ms: int) -> K | None:
        """Removes and returns the key that was due first, if any is due."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(self._heap)
            if self._queued_ms.get(key) != queued_ms:
                continue  # an earlier entry of this key was pushed after it
            del self._queued_ms[key]
            due_ms = self._due_ms.get(key)
            if due_ms == queued_ms:
                del self._due_ms[key]
                return key
            if due_ms is not None:
                self._push(key, due_ms)
        return None

    def _push(self, key: K, due_ms: int) -> None:
        self._count += 1
        self._queued_ms[key] = due_ms
        heapq.heappush(self._heap, (due_ms, self._count, key))
