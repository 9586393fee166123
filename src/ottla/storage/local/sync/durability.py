"""The durable part of a log, and the syncs of the rest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ottla.histogram import Histogram
from ottla.ports import StorageError
from ottla.storage.local.folder import layout
from ottla.storage.local.log.leader_epochs import LeaderEpochs
from ottla.storage.local.log.segment import Segment
from ottla.storage.local.sync.group_commit import SyncJob, SyncQueue


class Durability:
    """The segments and files of a log that are not synced yet."""

    __slots__ = (
        "_active",
        "_epochs",
        "_failed",
        "_folder",
        "_paths",
        "_queue",
        "_syncs",
        "_unsynced",
        "synced_offset",
    )

    def __init__(
        self,
        folder: str,
        epochs: LeaderEpochs,
        executor: ThreadPoolExecutor,
        syncs: Histogram,
        failed: Callable[[OSError], StorageError],
    ) -> None:
        self._folder = folder
        self._epochs = epochs
        self._failed = failed
        self._queue = SyncQueue(self, executor)
        self._syncs = syncs
        self._unsynced: list[Segment] = []  # sealed ones
        self._paths: list[str] = []  # other files, and folders
        self.synced_offset = 0  # everything below is durable

    def begin(self, segments: Sequence[Segment], synced_offset: int) -> None:
        """Takes over segments that are known to be durable only below an offset."""
        self.synced_offset = min(synced_offset, segments[-1].end_offset)
        for segment in segments:
            if segment.end_offset > self.synced_offset:
                segment.synced_bytes = -1
        self._unsynced = [segment for segment in segments[:-1] if segment.synced_bytes < 0]
        self._active = segments[-1]

    def inherit(self, earlier: Durability) -> None:
        """Takes over the unsynced files of an earlier claim, other than its segments."""
        for path in earlier._paths:
            self.also_sync(path)
        self._epochs.dirty |= earlier._epochs.dirty

    def rolled(self, new: Segment) -> None:
        """A new segment is active; the one before has to be synced."""
        if self._active.synced_bytes < self._active.size_bytes:
            self._unsynced.append(self._active)
        self._active = new

    def dropped(self, segment: Segment) -> None:
        """A segment was deleted: it need not be synced."""
        if segment in self._unsynced:
            self._unsynced.remove(segment)

    def also_sync(self, path: str) -> None:
        """Includes another file or a folder in the next sync."""
        if path not in self._paths:
            self._paths.append(path)

    def is_dirty(self) -> bool:
        """Whether there is anything to sync."""
        return (
            self._active.synced_bytes < self._active.size_bytes
            or bool(self._unsynced)
            or bool(self._paths)
            or self._epochs.dirty
        )

    def is_synced_up_to(self, end_offset: int) -> bool:
        """Whether everything below an offset is durable; False while a sync runs, which may still fail."""
        return (
            self.synced_offset >= end_offset and not self._epochs.dirty and not self._queue.is_busy
        )

    def flush(self) -> asyncio.Future[None] | None:
        """As PartitionLog.flush."""
        if not self.is_dirty() and not self._queue.is_busy:
            return None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._queue.sync_now()
            return None
        return self._queue.request(loop)

    def flush_unawaited(
        self, loop: asyncio.AbstractEventLoop, executor: ThreadPoolExecutor
    ) -> asyncio.Future[None] | None:
        """Begins a sync for which no client waits; None if there is nothing to sync."""
        return self._queue.begin_unawaited(loop, executor) if self.is_dirty() else None

    def flush_now(self) -> None:
        """Returns when everything is durable; StorageError if that fails."""
        if self.is_dirty() or self._queue.is_busy:
            self._queue.sync_now()

    def abandon(self, error: StorageError) -> None:
        """Fails the futures of a sync that has not begun, and will not begin."""
        self._queue.abandon(error)

    def take_sync_job(self) -> SyncJob:
        """The job of a sync that begins now; it covers everything appended so far."""
        fds: list[int] = []
        paths: list[str] = []
        segments: list[tuple[Segment, int]] = []
        try:
            for segment in (*self._unsynced, self._active):
                if segment.synced_bytes < segment.size_bytes:
                    segments.append((segment, segment.size_bytes))
                    fd = segment.duplicate_file()
                    if fd >= 0:
                        fds.append(fd)
                    else:
                        paths.append(segment.path)
        except OSError:
            for fd in fds:
                os.close(fd)
            raise
        if self._epochs.dirty:
            paths.append(self._epochs.path)
            self.also_sync(self._folder)
            self._epochs.dirty = False
        # Folders last: a name that is durable should have its content.
        paths += sorted(self._paths, key=os.path.isdir)
        self._paths = []
        return SyncJob(self._active.end_offset, segments, fds, paths)

    def sync_succeeded(self, job: SyncJob, seconds: float) -> None:
        """Records a successful sync, and its duration."""
        self._syncs.observe(seconds)
        for segment, size_bytes in job.segments:
            segment.synced_bytes = max(segment.synced_bytes, size_bytes)
        self._unsynced = [
            segment for segment in self._unsynced if segment.synced_bytes < segment.size_bytes
        ]
        self.synced_offset = max(self.synced_offset, job.end_offset)

    def sync_failed(self, error: OSError) -> StorageError:
        """Ends the claim: after a failed sync the content of the disk is unknown."""
        # The next claim has to sync everything.
        self._epochs.dirty = True
        self.also_sync(os.path.join(self._folder, layout.PARTITION_METADATA_FILE))
        self.also_sync(self._folder)
        self.also_sync(os.path.dirname(self._folder))
        return self._failed(error)
