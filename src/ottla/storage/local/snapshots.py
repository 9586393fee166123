"""Snapshot files of a partition; the engine does not know what is in them."""

from __future__ import annotations

import contextlib
import os
from bisect import insort
from collections.abc import Iterable
from typing import Final

from ottla.events import EventLog
from ottla.ports import Snapshot
from ottla.storage.local import checkpoint, layout

logger = EventLog(__name__)

_NEWEST_KEPT: Final = 3


class SnapshotFiles:
    """The newest few are kept, and those that stand at the beginning of a segment."""

    __slots__ = ("_folder", "_offsets")

    def __init__(self, folder: str, offsets: Iterable[int]) -> None:
        self._folder = folder
        self._offsets = sorted(offsets)

    def _path(self, offset: int) -> str:
        return os.path.join(self._folder, layout.offset_file_name(offset, layout.SNAPSHOT_SUFFIX))

    def save(self, snapshot: Snapshot) -> str:
        """Writes a snapshot; answers its path."""
        path = self._path(snapshot.offset)
        checkpoint.write_file(path, snapshot.data)
        if snapshot.offset not in self._offsets:
            insort(self._offsets, snapshot.offset)
        return path

    def prune(self, bases: Iterable[int]) -> None:
        """Removes what is not kept."""
        kept = {*bases, *self._offsets[-_NEWEST_KEPT:]}
        for offset in [offset for offset in self._offsets if offset not in kept]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(offset))
            self._offsets.remove(offset)

    def read(self, end_offset: int) -> list[Snapshot]:
        """The snapshots at or below an offset, newest first."""
        found = []
        for offset in reversed(self._offsets):
            if offset > end_offset:
                continue
            try:
                data = checkpoint.read_small_file(self._path(offset))
            except OSError as error:
                logger.warning(
                    "snapshot_unreadable",
                    "cannot read %(path)s: %(reason)s",
                    path=self._path(offset),
                    reason=str(error),
                )
                continue
            if data is not None:
                found.append(Snapshot(offset, data))
        return found
