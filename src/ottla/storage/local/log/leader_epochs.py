"""The leader epochs of a log and their first offsets: the leader-epoch-checkpoint file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ottla.ports import EpochStart
from ottla.storage.local.folder import checkpoint_files, layout


class LeaderEpochs:
    """The entries of a partition, oldest first."""

    __slots__ = ("dirty", "entries", "path")

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, layout.LEADER_EPOCHS_FILE)
        self.entries = checkpoint_files.read_epochs(self.path)
        self.dirty = False  # the file is not durable yet

    @property
    def latest(self) -> int:
        return self.entries[-1].epoch if self.entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Enters a new epoch before its first batch is written.

        A crash between the two leaves an entry at the log's end, which the next start drops. An epoch without
        records is replaced.
        """
        lasting = [entry for entry in self.entries if entry.start_offset < start_offset]
        self._write([*lasting, EpochStart(epoch, start_offset)])

    def assign_found(self, found: Sequence[EpochStart]) -> None:
        """Enters epochs of batches that the file does not have, as after a power loss."""
        entries = list(self.entries)
        for entry in found:
            if not entries or entry.epoch > entries[-1].epoch:
                entries.append(entry)
        if len(entries) != len(self.entries):
            self._write(entries)

    def cut_end(self, end_offset: int, log_start: int) -> None:
        """Drops epochs without a batch below the log's end.

        A log that was trimmed up to its end keeps its last epoch, which stands at its start.
        """
        entries = [
            entry
            for entry in self.entries
            if entry.start_offset < end_offset or 0 < entry.start_offset == log_start
        ]
        if len(entries) != len(self.entries):
            self._write(entries)

    def cut_start(self, start_offset: int) -> None:
        """Drops epochs whose batches were deleted; the first one left begins at the log's start.

        The file follows with the next epoch: until then every claim drops them again.
        """
        below = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if not below or below[0].start_offset == start_offset:
            return
        first = EpochStart(below[-1].epoch, start_offset)
        self.entries = [first, *self.entries[len(below) :]]

    def _write(self, entries: list[EpochStart]) -> None:
        data = checkpoint_files.encode_epochs(entries)
        if self.entries:
            # Replacing a file that is not synced could lose its old entries in a power loss.
            checkpoint_files.replace_file(self.path, data)
        else:
            checkpoint_files.write_file(self.path, data)
        self.entries = entries
        self.dirty = True
