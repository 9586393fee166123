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
    """Immutable bytes by key. Keys are chosen by the caller and never used twice for different bytes.

    Every method may raise ObjectsUnavailableError: whether it was done is unknown, and it may still be done later.
    ObjectsRefusedError says what an operator has to change.
    """

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Stores an object whole; durable when this returns. The parts must not change until then."""
        ...

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
        """Parts of an object: (position, size), each with as many bytes as were asked for.

        ObjectMissingError if there is no such object, DamagedError if it is shorter.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Removes objects; nothing happens where there is none."""
        ...

    def list(self, prefix: str) -> AsyncIterator[ListedObject]:
        """The objects whose keys begin with `prefix`, in the order of their keys."""
        ...

    async def close(self) -> None: ...
