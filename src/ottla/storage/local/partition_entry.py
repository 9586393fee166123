"""The partitions of a local store, claimed or not, and the checkpoint files with their offsets."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.ports import PartitionRef, StorageError, UnclaimedLog
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.offsets_file import Key, OffsetsFile

if TYPE_CHECKING:
    from ottla.storage.local.log.partition_log import LocalLog
    from ottla.storage.local.recovery.folder_check import BackgroundCheck
    from ottla.storage.local.recovery.folder_recovery import Suspicion


class Damage(NamedTuple):
    """The error of a partition, valid while its files have this fingerprint."""

    ref: PartitionRef
    text: str
    fingerprint: Hashable


@dataclass(slots=True, eq=False)
class PartitionEntry:
    """A partition: its claim, its offsets in the checkpoints, and what is wrong with its files."""

    key: Key
    path: str
    log: LocalLog | None = None  # of the last claim; it may have failed
    claimed_ref: PartitionRef | None = None
    claimed_epoch: int = -1  # of the last claim since the start; the next one gets a higher epoch
    recovery_point: int | None = None  # everything below is on disk
    log_start: int | None = None
    cleaned_offset: int | None = None
    is_in_checkpoints: bool = False
    is_deleted: bool = False
    suspicion: Suspicion | None = None  # the files have to be checked before they are used
    check: BackgroundCheck | None = None
    found_end: int | None = None  # by a check
    start_error: StorageError | None = None
    damage: Damage | None = None
    unclaimed: UnclaimedLog | None = None  # nothing changes a log that is not claimed

    def clear(self) -> None:
        """Forgets everything about data that was removed."""
        self.recovery_point = self.log_start = self.cleaned_offset = None
        self.suspicion = self.found_end = self.unclaimed = self.damage = None


class PartitionEntries:
    """The entries of a store, and the files that keep their offsets."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._entries: dict[Key, PartitionEntry] = {}
        self.get = self._entries.get
        recovery_points = self._read(layout.RECOVERY_POINTS_FILE)
        log_starts = self._read(layout.LOG_STARTS_FILE)
        cleaned = self._read(layout.CLEANED_OFFSETS_FILE)
        for key, offset in recovery_points.items():
            self.get_or_create(key).recovery_point = offset
        for key, offset in log_starts.items():
            self.get_or_create(key).log_start = offset
        for key, offset in cleaned.items():
            self.get_or_create(key).cleaned_offset = offset
        for key in (*recovery_points, *log_starts):
            self.get_or_create(key).is_in_checkpoints = True
        self._recovery_points_file = OffsetsFile(self._file(layout.RECOVERY_POINTS_FILE))
        self._log_starts_file = OffsetsFile(self._file(layout.LOG_STARTS_FILE), log_starts or None)
        self._cleaned_file = OffsetsFile(self._file(layout.CLEANED_OFFSETS_FILE), cleaned)
        self._cleaned_is_stale = False

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)

    def _read(self, name: str) -> dict[Key, int]:
        return checkpoint_files.read_offsets(self._file(name))

    def __iter__(self) -> Iterator[PartitionEntry]:
        return iter(self._entries.values())

    def get_or_create(self, key: Key) -> PartitionEntry:
        """The entry of a partition, created if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            entry = PartitionEntry(key, self._file(layout.folder_name(*key)))
            self._entries[key] = entry
        entry.is_deleted = False
        return entry

    def clear(self, entry: PartitionEntry) -> None:
        """Forgets the data of a partition; `save_cleaned_offsets` follows before another one gets its name."""
        self._cleaned_is_stale = self._cleaned_is_stale or entry.cleaned_offset is not None
        entry.clear()

    def forget(self, entry: PartitionEntry) -> None:
        """Forgets a deleted partition; its entry stays until no check and no checkpoint refers to the folder."""
        self.clear(entry)
        entry.log = entry.claimed_ref = entry.start_error = None
        entry.is_deleted = True
        self._drop_deleted(entry)

    def _drop_deleted(self, entry: PartitionEntry) -> None:
        # A running check and old offsets in a checkpoint concern a new partition of the same name, too.
        if entry.is_deleted and entry.check is None and not entry.is_in_checkpoints:
            del self._entries[entry.key]

    # -- the offsets

    def save_log_start(self, entry: PartitionEntry, start_offset: int) -> None:
        """Saves the start of a log durably; OSError if that fails."""
        starts = self._log_starts()
        starts[entry.key] = start_offset
        self._log_starts_file.take(starts)()
        self.note_log_start(entry, start_offset)

    def note_log_start(self, entry: PartitionEntry, start_offset: int) -> None:
        """Sets the start of a log; `save_log_starts` makes it durable."""
        entry.log_start = start_offset
        entry.is_in_checkpoints = True

    def save_log_starts(self) -> None:
        self._log_starts_file.take(self._log_starts())()

    def _log_starts(self) -> dict[Key, int]:
        return {entry.key: entry.log_start for entry in self if entry.log_start is not None}

    def save_cleaned_offset(self, entry: PartitionEntry, offset: int) -> None:
        """Saves durably up to where a log was compacted; OSError if that fails."""
        cleaned = self._cleaned_offsets()
        cleaned[entry.key] = offset
        self._cleaned_file.take(cleaned)()
        entry.cleaned_offset = offset
        self._cleaned_is_stale = False

    def save_cleaned_offsets(self) -> None:
        """Makes durable that `clear` forgot offsets."""
        if self._cleaned_is_stale:
            self._cleaned_file.take(self._cleaned_offsets())()
            self._cleaned_is_stale = False

    def _cleaned_offsets(self) -> dict[Key, int]:
        return {
            entry.key: entry.cleaned_offset for entry in self if entry.cleaned_offset is not None
        }

    def cut_cleaned_offset(self, entry: PartitionEntry, end_offset: int) -> None:
        """Forgets up to where a log was compacted, if the log ends below that."""
        if entry.cleaned_offset is not None and entry.cleaned_offset > end_offset:
            entry.cleaned_offset = None
            self._cleaned_is_stale = True
            self.save_cleaned_offsets()

    def take_checkpoints(self) -> Callable[[], None]:
        """A write of recovery points and log starts as they are now, for any thread; it raises OSError."""
        recovery_points = {}
        for entry in list(self):
            if (
                entry.log is not None and entry.log.is_open
            ):  # else it was noted when the claim ended
                entry.recovery_point = entry.log.durability.synced_offset
            if entry.recovery_point is not None:
                recovery_points[entry.key] = entry.recovery_point
            entry.is_in_checkpoints = (
                entry.recovery_point is not None or entry.log_start is not None
            )
            self._drop_deleted(entry)
        writes = (
            self._recovery_points_file.take(recovery_points),
            self._log_starts_file.take(self._log_starts()),
        )

        def write() -> None:
            for each in writes:
                each()

        return write
