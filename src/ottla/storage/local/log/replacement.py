"""A new segment that will replace others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from ottla.ports import Buffer, Extent, StorageError, StorageFullError
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.log import segment_swap
from ottla.storage.local.log.index import empty_index
from ottla.storage.local.log.segment import Segment


class Owner(Protocol):
    """The log whose segments are replaced."""

    def check_open(self) -> None: ...

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these are still segments of the log."""
        ...

    def put_in_place(self, segments: Sequence[Segment], size_bytes: int) -> None:
        """Swaps the files and the segments; the new files are complete and durable."""
        ...


class LocalReplacement:
    """Implements Replacement; reads of the log do not see it before `commit`."""

    def __init__(
        self,
        owner: Owner,
        old: Sequence[Segment],
        interval_bytes: int,
        executor: ThreadPoolExecutor,
    ) -> None:
        self._owner = owner
        self._old = old
        self._stem = old[0].stem
        self._interval_bytes = interval_bytes
        self._executor = executor
        self._index = empty_index(old[0].base_offset)
        self._size_bytes = 0
        self._end_offset = old[0].base_offset
        self._is_durable = False
        segment_swap.remove_cleaned(self._stem)
        self._fd = os.open(
            self._path(layout.LOG_SUFFIX),
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC,
            0o644,
        )

    def _path(self, suffix: str) -> str:
        return self._stem + suffix + layout.CLEANED_SUFFIX

    def append(self, data: Buffer, extents: Sequence[Extent]) -> None:
        self._owner.check_open()
        last_offset = extents[-1].last_offset
        if (
            self._fd < 0
            or extents[0].base_offset < self._end_offset
            or last_offset >= self._old[-1].end_offset
            or last_offset - self._index.base_offset > layout.MAX_RELATIVE_OFFSET
            or self._size_bytes + len(data) > layout.MAX_SEGMENT_BYTES
        ):
            raise ValueError(f"{extents} cannot be added to the replacement of {self._stem}")
        try:
            checkpoint_files.write_all(self._fd, data)
        except OSError as error:
            self.abandon()
            raise StorageFullError(f"cannot write {self._path('')}: {error}") from error
        position = self._size_bytes
        for _, offset, timestamp_ms, size_bytes in extents:
            self._index.add(offset, position, size_bytes, timestamp_ms, self._interval_bytes)
            position += size_bytes
        self._size_bytes = position
        self._end_offset = last_offset + 1

    def flush(self) -> asyncio.Future[None] | None:
        self._owner.check_open()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._sync()
            return None
        return loop.run_in_executor(self._executor, self._sync)

    def _sync(self) -> None:
        """Step 1 of a swap; may run in another thread."""
        try:
            self._index.add_time_entry()
            for suffix, entries in (
                (layout.INDEX_SUFFIX, self._index.offset_entries),
                (layout.TIME_INDEX_SUFFIX, self._index.time_entries),
            ):
                _write_durably(self._path(suffix), bytes(entries))
            os.fsync(self._fd)
        except OSError as error:
            raise StorageFullError(f"cannot write {self._path('')}: {error}") from error
        self._is_durable = True

    def commit(self) -> bool:
        self._owner.check_open()
        if not self._is_durable:
            raise ValueError(f"the replacement of {self._stem} was not flushed")
        if not self._owner.holds(self._old):
            self.abandon()
            return False
        self._close()
        self._owner.put_in_place(self._old, self._size_bytes)
        return True

    def abandon(self) -> None:
        if self._fd < 0:
            return
        self._close()
        try:
            # A later claim may be writing a replacement of its own there.
            self._owner.check_open()
        except StorageError:
            return
        segment_swap.remove_cleaned(self._stem)

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1


def _write_durably(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        checkpoint_files.write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
