"""The transaction index of a partition: a .txnindex file beside each segment in which transactions were aborted.

An entry has 34 bytes: a version, then producer id, first, last and last stable offset, big-endian. Kafka's format has
no checksum: those of all files of a partition are in a checkpoint of ours (ADR 0037).
"""

from __future__ import annotations

import os
import struct
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.core.aborted import AbortedSpan
from ottla.records.crc import crc32c
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.checkpoint_files import Checksum

VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_FILES_LOADED: Final = 16


def sound_bytes(data: bytes, base_offset: int, end_offset: int) -> int:
    """The number of leading bytes that are valid entries for a segment of these offsets."""
    last_marker = base_offset - 1
    position = 0
    while position + ENTRY_BYTES <= len(data):
        version, _, first_offset, last_offset, _ = _ENTRY.unpack_from(data, position)
        if version != VERSION or not last_marker < last_offset < end_offset:
            break
        if not 0 <= first_offset < last_offset:
            break
        last_marker = last_offset
        position += ENTRY_BYTES
    return position


def read_entry(data: bytes, position: int) -> tuple[int, AbortedSpan]:
    """The version and the span of the entry at a position."""
    version, *span = _ENTRY.unpack_from(data, position)
    return version, AbortedSpan(*span)


class AbortedSpans:
    """The index files of a partition, read when they are needed."""

    __slots__ = (
        "_being_synced",
        "_folder",
        "_loaded",
        "_noted_checksums",
        "_on_disk",
        "_unsynced",
        "checksums",
    )

    def __init__(
        self, folder: str, bases: Sequence[int], noted_checksums: Mapping[int, Checksum]
    ) -> None:
        """`noted_checksums` are those in the checkpoint."""
        self.checksums: dict[int, Checksum] = {}  # of all files
        self._noted_checksums = noted_checksums
        self._folder = folder
        self._on_disk = sorted(bases)
        self._loaded: dict[int, bytearray] = {}
        self._unsynced: dict[str, None] = {}
        self._being_synced: dict[str, None] = {}

    @property
    def is_empty(self) -> bool:
        return not self._on_disk

    def path(self, base_offset: int) -> str:
        return os.path.join(
            self._folder, layout.offset_file_name(base_offset, layout.TXN_INDEX_SUFFIX)
        )

    def note(self, span: AbortedSpan, base_offset: int) -> list[str]:
        """Adds a span to the file of a segment unless it is there; returns the paths to sync."""
        entries = self._load(base_offset)
        if entries and span.last_offset <= _last_offset(entries, len(entries) - ENTRY_BYTES):
            return []
        entry = _ENTRY.pack(VERSION, *span)
        path = self.path(base_offset)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Bytes of a failed write are overwritten.
            os.ftruncate(fd, len(entries))
            os.lseek(fd, len(entries), os.SEEK_SET)
            checkpoint_files.write_all(fd, entry)
        finally:
            os.close(fd)
        entries += entry
        crc_before = self.checksums[base_offset].crc if base_offset in self.checksums else 0
        self.checksums[base_offset] = Checksum(len(entries), crc32c(entry, crc_before))
        touched = [path]
        if base_offset not in self._on_disk:
            insort(self._on_disk, base_offset)
            touched.append(self._folder)
        self._unsynced.update(dict.fromkeys(touched))
        return touched

    def spans(self, base_offset: int, offset: int) -> Iterator[AbortedSpan]:
        """The spans of a segment and of those behind it whose last offset is not below an offset."""
        for found in [base for base in self._on_disk if base >= base_offset]:
            entries = self._load(found)
            position = _position_of(entries, offset)
            # By position: an entry may be added between two reads.
            while position < len(entries):
                yield AbortedSpan(*_ENTRY.unpack_from(entries, position)[1:])
                position += ENTRY_BYTES

    def _load(self, base_offset: int) -> bytearray:
        entries = self._loaded.get(base_offset)
        if entries is None:
            data = b""
            if base_offset in self._on_disk:
                data = checkpoint_files.read_small_file(self.path(base_offset)) or b""
            entries = bytearray(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES])
            if len(self._loaded) >= _FILES_LOADED:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[base_offset] = entries
        return entries

    def sync(self) -> None:
        """Makes every span durable before a snapshot is written: no replay reads the log below that."""
        for path in {**self._being_synced, **self._unsynced}:
            checkpoint_files.sync_path(path)
        self._unsynced.clear()

    def begin_sync(self) -> list[str]:
        """The files that the caller syncs instead, until `end_sync`; one caller at a time."""
        self._being_synced, self._unsynced = self._unsynced, {}
        return list(self._being_synced)

    def end_sync(self) -> None:
        self._being_synced = {}

    def note_checksums(self) -> list[str]:
        """Writes the checkpoint if it is out of date; returns the paths to sync."""
        if self.checksums == self._noted_checksums:
            return []
        path = os.path.join(self._folder, layout.TXN_CHECKSUMS_FILE)
        checkpoint_files.write_checksums(path, self.checksums)
        self._noted_checksums = dict(self.checksums)
        return [path]

    def drop(self, base_offset: int) -> None:
        """Forgets the file of a segment that is deleted."""
        self.checksums.pop(base_offset, None)
        self._loaded.pop(base_offset, None)
        self._unsynced.pop(self.path(base_offset), None)
        self._being_synced.pop(self.path(base_offset), None)
        if base_offset in self._on_disk:
            self._on_disk.remove(base_offset)


def _last_offset(entries: bytearray, position: int) -> int:
    last_offset: int = _ENTRY.unpack_from(entries, position)[3]
    return last_offset


def _position_of(entries: bytearray, offset: int) -> int:
    """The position of the first entry whose last offset is not below an offset."""
    low, high = 0, len(entries) // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if _last_offset(entries, middle * ENTRY_BYTES) < offset:
            low = middle + 1
        else:
            high = middle
    return low * ENTRY_BYTES
