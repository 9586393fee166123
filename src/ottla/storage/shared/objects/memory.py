"""Objects in this process, for tests and the simulator."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

from ottla.ports import Buffer, DamagedError
from ottla.storage.shared.errors import ObjectMissingError
from ottla.storage.shared.objects.objects import ListedObject


class ObjectOperation(NamedTuple):
    """What is asked of the store: `name` is that of a method of Objects; a list has its prefix as key."""

    name: str
    keys: Sequence[str]


Answer = Sequence[Buffer]
# Stands between caller and store: it may wait, call `perform` or not, raise in its place or after it, and change what
# it returns (the bytes of `get_ranges`, nothing for the others).
Fault = Callable[[ObjectOperation, Callable[[], Answer]], Awaitable[Answer]]


async def no_fault(operation: ObjectOperation, perform: Callable[[], Answer]) -> Answer:
    return perform()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryObjects:
    """A store that all brokers of a test share. `fault` may be replaced at any time."""

    def __init__(
        self, fault: Fault = no_fault, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self.fault = fault
        self.stored: dict[str, bytes] = {}  # tests may damage it
        self._modified_ms: dict[str, int] = {}
        self._clock_ms = clock_ms

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        def perform() -> Answer:
            self.stored[key] = b"".join(parts)
            self._modified_ms[key] = self._clock_ms()
            return ()

        await self.fault(ObjectOperation("put", (key,)), perform)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
        def perform() -> Answer:
            data = self.stored.get(key)
            if data is None:
                raise ObjectMissingError(f"there is no object {key}")
            for position, size_bytes in ranges:
                if position + size_bytes > len(data):
                    raise DamagedError(
                        f"object {key} has {len(data)} bytes, not {position + size_bytes}"
                    )
            return [memoryview(data)[at : at + size_bytes] for at, size_bytes in ranges]

        return await self.fault(ObjectOperation("get_ranges", (key,)), perform)

    async def delete(self, keys: Sequence[str]) -> None:
        def perform() -> Answer:
            for key in keys:
                self.stored.pop(key, None)
                self._modified_ms.pop(key, None)
            return ()

        await self.fault(ObjectOperation("delete", tuple(keys)), perform)

    async def list(self, prefix: str) -> AsyncIterator[ListedObject]:
        await self.fault(ObjectOperation("list", (prefix,)), lambda: ())
        for key in sorted(self.stored):
            data = self.stored.get(key)
            if data is not None and key.startswith(prefix):
                yield ListedObject(key, len(data), self._modified_ms.get(key, 0))

    async def close(self) -> None:
        """The objects stay: another broker may use them."""
