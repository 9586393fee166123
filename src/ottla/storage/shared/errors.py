"""The errors of the shared engine's parts."""

from __future__ import annotations

from ottla.ports import StorageError


class SequencerUnavailableError(StorageError):
    """PostgreSQL did not answer; whether it has done what was asked is unknown."""


class ObjectsUnavailableError(StorageError):
    """The object store did not answer; whether it has done what was asked is unknown."""


class ObjectMissingError(StorageError):
    """There is no object of this key."""


class HeldElsewhereError(StorageError):
    """Another live broker holds the partition."""
