"""The transaction index of a partition: a .txnindex file beside each segment in which transactions were aborted.

An entry has 34 bytes: a version, then producer id, first, last and last stable offset, big-endian.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.core.aborted import AbortedSpan
from ottla.storage.local import checkpoint, layout

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size


def sound_bytes(data: bytes, base_offset: int, end_offset: int) -> int:
    """How much of a file's content can be right for a segment of these offsets."""
    last_marker = base_offset - 1
    position = 0
    while position + ENTRY_BYTES <= len(data):
        version, _, first_offset, last_offset, _ = _ENTRY.unpack_from(data, position)
        if version != _VERSION or not last_marker < last_offset < end_offset:
            break
        if not 0 <= first_offset < last_offset:
            break
        last_marker = last_offset
        position += ENTRY_BYTES
    return position


class AbortedSpans:
    """The index files of a partition, read when they are first needed."""

    __slots__ = ("_folder", "_loaded", "_on_disk", "_unsynced")

    def __init__(self, folder: str, bases: Sequence[int]) -> None:
        self._folder = folder
        self._on_disk = sorted(bases)
        self._loaded: dict[int, list[AbortedSpan]] = {}
        self._unsynced: list[str] = []

    def path(self, base_offset: int) -> str:
        return os.path.join(
            self._folder, layout.offset_file_name(base_offset, layout.TXN_INDEX_SUFFIX)
        )

    def note(self, span: AbortedSpan, base_offset: int) -> list[str]:
        """Adds a span to the file of a segment unless it is there; answers what has to be synced."""
        spans = self._load(base_offset)
        if spans and span.last_offset <= spans[-1].last_offset:
            return []
        path = self.path(base_offset)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            position = len(spans) * ENTRY_BYTES
            # What a failed write left behind is written over.
            os.ftruncate(fd, position)
            os.lseek(fd, position, os.SEEK_SET)
            checkpoint.write_all(fd, _ENTRY.pack(_VERSION, *span))
        finally:
            os.close(fd)
        spans.append(span)
        touched = [path]
        if base_offset not in self._on_disk:
            self._on_disk.insert(bisect_right(self._on_disk, base_offset), base_offset)
            touched.append(self._folder)
        if path not in self._unsynced:
            self._unsynced += touched
        return touched

    def from_segment(self, base_offset: int) -> Iterator[AbortedSpan]:
        """The spans of a segment and of those behind it."""
        for found in [base for base in self._on_disk if base >= base_offset]:
            yield from list(self._load(found))

    def _load(self, base_offset: int) -> list[AbortedSpan]:
        spans = self._loaded.get(base_offset)
        if spans is None:
            data = b""
            if base_offset in self._on_disk:
                data = checkpoint.read_small_file(self.path(base_offset)) or b""
            whole = data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
            spans = [AbortedSpan(*entry[1:]) for entry in _ENTRY.iter_unpack(whole)]
            self._loaded[base_offset] = spans
        return spans

    def sync(self) -> None:
        """Makes every span durable: a snapshot behind which no replay looks is about to be written."""
        for path in self._unsynced:
            checkpoint.sync_path(path)
        self._unsynced.clear()

    def drop(self, base_offset: int) -> None:
        """Forgets the file of a segment that is deleted."""
        self._loaded.pop(base_offset, None)
        if base_offset in self._on_disk:
            self._on_disk.remove(base_offset)
