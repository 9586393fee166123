"""What a local store is opened with: its folder, the locks on it, the catalog, and the counter of its epochs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from ottla.ports import Catalog, StorageError


class ClaimEpochs(Protocol):
    """The durable counter of a store's claims (ADR 0007)."""

    is_new: bool  # nothing has been counted in this folder before

    @property
    def epoch(self) -> int: ...

    def raise_epoch(self, epoch: int) -> None:
        """Durably sets the epoch, which never goes down."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoreHome:
    """The folder of a store, whose locks are held; the store closes it."""

    path: str
    cluster_id: str
    locks: Sequence[int]
    catalog: Catalog
    epochs: ClaimEpochs

    def close(self) -> None:
        """Gives up the folder: another process may open it."""
        self.epochs.close()
        for lock in self.locks:
            os.close(lock)


@contextmanager
def opening(folder: str) -> Iterator[ExitStack]:
    """Undoes what was registered if the opening of a folder fails; OSError becomes StorageError."""
    with ExitStack() as opened:
        try:
            yield opened
        except OSError as error:
            raise _unusable(folder, error) from error
        # The opened store holds them now.
        opened.pop_all()


def _unusable(folder: str, error: OSError) -> StorageError:
    where = f"{error.filename}: " if error.filename not in (None, folder) else ""
    return StorageError(f"cannot use the data folder {folder}: {where}{error.strerror or error}")
