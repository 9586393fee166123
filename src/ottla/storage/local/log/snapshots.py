"""Snapshot files of a partition; the engine does not know what is in them."""

from __future__ import annotations

import contextlib
import os
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence

from ottla.events import EventLog
from ottla.ports import Snapshot
from ottla.storage.kept_snapshots import kept_snapshots
from ottla.storage.local.folder import checkpoint_files, layout

logger = EventLog(__name__)


class UnsyncedError(OSError):
    """Files on which a snapshot relies may not be on disk."""


class SnapshotFiles:
    """The snapshots of a partition by offset; `kept_snapshots` says which of them are kept."""

    __slots__ = ("_folder", "_offsets")

    def __init__(self, folder: str, offsets: Iterable[int]) -> None:
        self._folder = folder
        self._offsets = sorted(offsets)

    def _path(self, offset: int) -> str:
        return os.path.join(self._folder, layout.offset_file_name(offset, layout.SNAPSHOT_SUFFIX))

    def save(self, snapshot: Snapshot) -> str:
        """Writes a snapshot; returns its path."""
        path = self._path(snapshot.offset)
        checkpoint_files.write_file(path, snapshot.data)
        return self._added(snapshot.offset)

    def draft_path(self, offset: int, epoch: int) -> str:
        """The path of an unfinished snapshot; a start removes what a crash leaves there."""
        return f"{self._path(offset)}.{epoch}{layout.TEMPORARY_SUFFIX}"

    def drop_draft(self, offset: int, epoch: int) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.draft_path(offset, epoch))

    def take_draft(self, offset: int, epoch: int) -> str:
        """Gives a draft its final name; returns its path."""
        os.replace(self.draft_path(offset, epoch), self._path(offset))
        return self._added(offset)

    def _added(self, offset: int) -> str:
        if offset not in self._offsets:
            insort(self._offsets, offset)
        return self._path(offset)

    def prune(self, cuts: Iterable[int]) -> None:
        """Removes the snapshots that a log needs neither now nor after it was cut at one of these offsets."""
        kept = kept_snapshots(self._offsets, cuts)
        for offset in [offset for offset in self._offsets if offset not in kept]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(offset))
            self._offsets.remove(offset)

    def read(self, end_offset: int) -> Iterator[Snapshot]:
        """The snapshots at or below an offset, newest first; an iterator, because the first is usually enough."""
        for offset in list(reversed(self._offsets)):
            if offset > end_offset:
                continue
            try:
                data = checkpoint_files.read_small_file(self._path(offset))
            except OSError as error:
                logger.warning(
                    "snapshot_unreadable",
                    "cannot read %(path)s: %(reason)s",
                    path=self._path(offset),
                    reason=str(error),
                )
                continue
            if data is not None:
                yield Snapshot(offset, data)


def write_draft(path: str, data: bytes, synced_first: Sequence[str]) -> None:
    """Writes a snapshot durably, after files that it relies on are on disk; UnsyncedError if they are not."""
    for other in synced_first:
        try:
            checkpoint_files.sync_path(other)
        except FileNotFoundError:
            continue  # its segment was deleted
        except OSError as error:
            raise UnsyncedError(*error.args) from error
    with open(path, "wb", buffering=0) as file:
        checkpoint_files.write_all(file.fileno(), data)
        os.fsync(file.fileno())
