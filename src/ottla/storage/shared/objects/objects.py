"""The interface of an object store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from ottla.ports import Buffer


class ListedObject(NamedTuple):
    key: str
    size_bytes: int
    modified_ms: int


class Objects(Protocol):
    """Keys are chosen by the caller and never used twice. ObjectsUnavailableError: whether it was done is unknown."""

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Stores an object whole; durable when this returns."""
        ...

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
        """Parts of an object: (position, size). ObjectMissingError if there is no such object."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Removes objects; nothing happens where there is none."""
        ...

    def list(self, prefix: str) -> AsyncIterator[ListedObject]: ...

    async def close(self) -> None: ...
