"""The errors of storage engines."""

from __future__ import annotations

import asyncio

from ottla.errors import OttlaError


class StorageError(OttlaError):
    """The operation failed, and the claim is over: the partition has to be claimed again."""


class InUseError(StorageError):
    """Another process uses the data."""


class NewerFormatError(StorageError):
    """The data has formats of a later version, which this one cannot read."""


class StorageFullError(StorageError):
    """There is no room. Nothing was stored, and the claim lasts."""


class DamagedError(StorageError):
    """Stored data that had been acknowledged is lost or changed: an operator has to look at it."""


class ClaimPendingError(StorageError):
    """A claim takes longer than a request may wait; it can be tried again when `done` is."""

    def __init__(self, text: str, done: asyncio.Future[None]) -> None:
        super().__init__(text)
        self.done = done


class StorageUnavailableError(StorageError):
    """The store cannot be reached now. Nothing has changed, the claim lasts, and a later call may succeed."""


class ReadPendingError(StorageUnavailableError):
    """A read needs data that is not in memory; it can be made again when `done` is.

    Raised only inside a running loop, by `read`, `scan`, `headers`, `batch_at_timestamp` and `batch_of_max_timestamp`.
    In a bounded time `done` is done, always without an error: the call can be answered then, or is known to fail, which
    the next call says. The engine keeps what it has fetched for some seconds, so that a caller finds it who makes the
    call again, also with a higher `end_offset` or another size.
    """

    def __init__(self, text: str, done: asyncio.Future[None]) -> None:
        super().__init__(text)
        self.done = done


class FencedError(StorageError):
    """The partition was claimed again, or deleted, since this claim."""


class CatalogConflictError(StorageError):
    """The catalog has changed since the caller read it."""
