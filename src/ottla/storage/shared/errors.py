"""The errors of the shared engine's parts."""

from __future__ import annotations

from ottla.ports import StorageError, StorageUnavailableError


class SequencerUnavailableError(StorageError):
    """PostgreSQL did not answer; whether it has done what was asked is unknown."""


class ObjectsUnavailableError(StorageUnavailableError):
    """The object store did not answer; whether it has done what was asked is unknown."""


class ObjectMissingError(StorageError):
    """There is no object of this key."""


class ObjectsRefusedError(StorageError):
    """The object store refuses what is asked, until an operator changes a right, a bucket or an option."""


class ForeignClusterError(StorageError):
    """The bucket, or an object in it, belongs to another cluster."""


class HeldElsewhereError(StorageError):
    """Another live broker holds the partition."""
