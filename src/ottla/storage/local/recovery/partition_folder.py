"""The files of a partition's folder, listed before the folder is recovered or loaded."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from typing import Final

from ottla.events import EventLog
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.checkpoint_files import Checksum
from ottla.storage.local.log import segment_swap

logger = EventLog(__name__)

_INDEX_SUFFIXES: Final = (layout.INDEX_SUFFIX, layout.TIME_INDEX_SUFFIX)
_OTHER_FILES: Final = (
    layout.LEADER_EPOCHS_FILE,
    layout.PARTITION_METADATA_FILE,
    layout.TXN_CHECKSUMS_FILE,
)


class UntrustworthyError(Exception):
    """A folder is not as a clean stop leaves it; it has to be recovered."""

    def __init__(self, text: str, checked_from: int = 0) -> None:
        super().__init__(text)
        self.checked_from = checked_from


class UnusableIndexError(UntrustworthyError):
    """The index of a large last segment is of no use: the segment has to be read."""


class PartitionFolder:
    """The segments, indexes and snapshots of a partition; `open_folder` lists them."""

    __slots__ = (
        "_bases",
        "changed",
        "path",
        "sizes",
        "snapshots",
        "txn_checksums",
        "txn_indexes",
        "unindexed",
    )

    def __init__(
        self,
        path: str,
        sizes: dict[int, int],
        indexes: set[tuple[int, str]],
        snapshots: list[int],
        txn_checksums: dict[int, Checksum],
    ) -> None:
        """`sizes` are those of the .log files by base offset; `indexes` has a base offset and a suffix per file."""
        self.path = path
        self.changed = False  # files were removed or shortened
        self.sizes = dict(sorted(sizes.items()))
        self.snapshots = sorted(snapshots)
        self.txn_checksums = txn_checksums  # as the checkpoint has them
        # Sealed segments with records that lack an offset index or a time index.
        self.unindexed = [
            base_offset
            for base_offset, size_bytes in list(self.sizes.items())[:-1]
            if size_bytes and not {(base_offset, suffix) for suffix in _INDEX_SUFFIXES} <= indexes
        ]
        self.txn_indexes = [
            base_offset
            for base_offset in self.sizes
            if (base_offset, layout.TXN_INDEX_SUFFIX) in indexes
        ]
        self._bases: list[int] | None = None

    def stem(self, base_offset: int) -> str:
        return os.path.join(self.path, layout.offset_file_name(base_offset, ""))

    def remove_segment(self, base_offset: int) -> None:
        for suffix in layout.SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.stem(base_offset) + suffix)
        del self.sizes[base_offset]
        self._bases = None
        if base_offset in self.txn_indexes:
            self.txn_indexes.remove(base_offset)
        self.changed = True

    def segment_end(self, base_offset: int, end_offset: int) -> int:
        """The first offset behind a segment: the next base offset, or `end_offset`, the end of the log."""
        if self._bases is None:
            self._bases = list(self.sizes)
        following = bisect_right(self._bases, base_offset)
        return self._bases[following] if following < len(self._bases) else end_offset

    def remove_snapshots_above(self, offset: int) -> None:
        for snapshot in [found for found in self.snapshots if found > offset]:
            logger.warning(
                "snapshot_removed",
                "%(path)s is of no use above offset %(offset)d: removed",
                path=self.stem(snapshot) + layout.SNAPSHOT_SUFFIX,
                offset=offset,
            )
            os.unlink(self.stem(snapshot) + layout.SNAPSHOT_SUFFIX)
            self.snapshots.remove(snapshot)
            self.changed = True


def open_folder(path: str) -> PartitionFolder:
    """Completes or undoes a replacement of segments, removes leftover files, and lists the others."""
    segment_swap.finish(path)
    sizes: dict[int, int] = {}
    indexes: dict[tuple[int, str], str] = {}
    snapshots: list[int] = []
    txn_checksums: dict[int, Checksum] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith((layout.DELETED_SUFFIX, layout.TEMPORARY_SUFFIX)):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                continue
            if layout.CUT_MARK in entry.name:
                continue
            parsed = layout.parse_offset_file_name(entry.name)
            if parsed is None or not entry.is_file():
                if entry.name not in _OTHER_FILES:
                    _log_foreign(entry.path)
                elif entry.name == layout.TXN_CHECKSUMS_FILE:
                    txn_checksums = checkpoint_files.read_checksums(entry.path)
            elif parsed[1] == layout.LOG_SUFFIX:
                sizes[parsed[0]] = entry.stat().st_size
            elif parsed[1] == layout.SNAPSHOT_SUFFIX:
                snapshots.append(parsed[0])
            elif parsed[1] in layout.SEGMENT_SUFFIXES:
                indexes[parsed] = entry.path
            else:
                _log_foreign(entry.path)
    for (base_offset, _), index_path in indexes.items():
        if base_offset not in sizes:
            text = "%(path)s has no segment: removed"
            logger.warning("index_removed", text, path=index_path)
            os.unlink(index_path)
    return PartitionFolder(path, sizes, set(indexes), snapshots, txn_checksums)


def _log_foreign(path: str) -> None:
    logger.warning("file_ignored", "%(path)s does not belong into a partition: ignored", path=path)
