"""Checking a partition's folder before it is trusted: at a start, or on a thread while the broker serves others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.config.topic import TopicConfig
from ottla.ports import ClaimPendingError, DamagedError, StorageError
from ottla.storage.local.folder import layout
from ottla.storage.local.partition_entry import PartitionEntry
from ottla.storage.local.recovery import folder_recovery
from ottla.storage.local.recovery.file_cuts import Cut, cut_by_copy
from ottla.storage.local.recovery.folder_recovery import Suspicion
from ottla.storage.local.recovery.scan import Pause, build_index, never_pause
from ottla.storage.local.sync.disk_threads import StorageThreads

# A check works this long, then it sleeps this long, so that the event loop gets the interpreter.
_WORK_SECONDS: Final = 0.001
_REST_SECONDS: Final = 0.0003
_LOOK_BYTES: Final = 32 * 1024
_READ_BYTES: Final = 1024 * 1024


class DamagedFilesError(DamagedError):
    """Damage that a check of all files of a partition found, and their fingerprint before it."""

    def __init__(self, text: str, fingerprint: Hashable) -> None:
        super().__init__(text)
        self.fingerprint = fingerprint


class CheckStoppedError(Exception):
    """The store closes before the check is over; the next start begins it anew."""


@dataclass(frozen=True, slots=True)
class FolderCheck:
    """The check and repair of a folder."""

    path: str
    suspicion: Suspicion
    recovery_point: int
    log_start: int
    cut: Cut

    def run(self, pause: Pause = never_pause) -> int:
        """Checks the folder and repairs it; returns the log's end. DamagedError if it cannot be repaired."""
        trust = self.suspicion.trust(self.recovery_point, self.log_start)
        interval_bytes = TopicConfig().index_interval_bytes
        fingerprint = fingerprint_of(self.path)
        try:
            end_offset = folder_recovery.recover(self.path, trust, interval_bytes, self.cut, pause)
        except DamagedError as error:
            raise DamagedFilesError(str(error), fingerprint) from error
        if self.suspicion.sync_has_failed:
            folder_recovery.rewrite(self.path, self.recovery_point)
        return end_offset


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """The build of missing indexes in a folder that needs no other repair."""

    path: str
    bases: Sequence[int]
    interval_bytes: int

    def run(self, pause: Pause = never_pause) -> int:
        """Writes the indexes; returns the number of segments."""
        for base_offset in self.bases:
            stem = os.path.join(self.path, layout.offset_file_name(base_offset, ""))
            segment = stem + layout.LOG_SUFFIX
            build_index(segment, base_offset, self.interval_bytes, pause).write(stem)
        return len(self.bases)


class BackgroundCheck:
    """A check that runs on a thread; the event loop takes its result."""

    def __init__(
        self,
        check: FolderCheck | IndexBuild,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[int], None],
    ) -> None:
        """`ended` is called on the loop with what the check returns, if it succeeds."""
        self.check = check
        self.done: asyncio.Future[None] = loop.create_future()
        self.error: Exception | None = None
        self._loop = loop
        self._ended = ended
        self._is_stopped = False
        self._rested_at = 0.0
        self._read_up_to = 0
        self._path = ""

    def start(self, executor: Executor) -> None:
        executor.submit(self.check.run, self._pause).add_done_callback(self._finish_on_loop)

    def stop(self) -> None:
        """Makes the thread stop at its next pause."""
        self._is_stopped = True

    def _pause(self, path: str, fd: int, position: int) -> int:
        """Sleeps now and then; reads ahead, because a page fault of a mapping holds the interpreter lock."""
        if self._is_stopped:
            raise CheckStoppedError
        if path != self._path:
            self._path, self._read_up_to = path, position
        if position + _LOOK_BYTES > self._read_up_to:
            self._read_up_to = max(position, self._read_up_to)
            self._read_up_to += len(os.pread(fd, _READ_BYTES, self._read_up_to)) or _READ_BYTES
        if time.monotonic() - self._rested_at >= _WORK_SECONDS:
            time.sleep(_REST_SECONDS)
            self._rested_at = time.monotonic()
        return position + _LOOK_BYTES

    def _finish_on_loop(self, finished: Future[int]) -> None:
        # The loop may have been closed with the store.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish, finished)

    def _finish(self, finished: Future[int]) -> None:
        try:
            self._ended(finished.result())
        except Exception as error:
            self.error = error
        if not self.done.done():
            self.done.set_result(None)


class FolderChecks:
    """Checks the files of partitions under suspicion before they are used."""

    def __init__(self, recovered: Callable[[PartitionEntry, int], None]) -> None:
        """`recovered` is called with each partition that was repaired or needed no repair, and where it ends."""
        self._recovered = recovered
        self._running: dict[BackgroundCheck, None] = {}
        # Separate threads: checks may take minutes, and syncs must not wait for them.
        self._threads: StorageThreads | None = None

    def check_now(self, entry: PartitionEntry, cut: Cut) -> None:
        """Checks a folder and repairs it; DamagedError if that is not possible."""
        check = _check_of(entry, cut)
        self._trust(entry, check, check.run())

    def check_before_use(self, entry: PartitionEntry) -> None:
        """As `check_now`, on a thread if there is a loop: ClaimPendingError then."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.check_now(entry, cut_by_copy)
            return
        check = _check_of(entry, cut_by_copy)
        self._begin(entry, BackgroundCheck(check, loop, partial(self._trust, entry, check)))

    def build_before_use(self, entry: PartitionEntry, build: IndexBuild) -> None:
        """Makes indexes on a thread if there is a loop: ClaimPendingError then. Else the first use of each makes it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._begin(entry, BackgroundCheck(build, loop, lambda _: None))

    def _begin(self, entry: PartitionEntry, check: BackgroundCheck) -> None:
        if self._threads is None:
            self._threads = StorageThreads(1, thread_name_prefix="ottla-check")
        entry.check = check
        self._running[check] = None
        check.start(self._threads)
        self.take_check(entry)

    def take_check(self, entry: PartitionEntry) -> bool:
        """Whether a check has just succeeded; raises ClaimPendingError while it runs, or what it found."""
        check = entry.check
        if check is None:
            return False
        if not check.done.done():
            raise ClaimPendingError(f"{check.check.path} is being checked", check.done)
        entry.check = None
        self._running.pop(check, None)
        if isinstance(check.check, IndexBuild):
            if check.error is not None:
                raise check.error
            return False
        # An error of a folder that was replaced since says nothing about the new one.
        if check.error is not None and entry.suspicion is check.check.suspicion:
            raise check.error
        return entry.suspicion is None

    def _trust(self, entry: PartitionEntry, check: FolderCheck, end_offset: int) -> None:
        """Ends the suspicion of a checked folder, unless it was replaced or came under another suspicion since."""
        if entry.suspicion is check.suspicion:
            entry.suspicion = None
            entry.recovery_point = min(check.recovery_point, end_offset)
            self._recovered(entry, end_offset)

    def close(self) -> None:
        """Stops the running checks; the next start begins them again."""
        for check in self._running:
            check.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)


def _check_of(entry: PartitionEntry, cut: Cut) -> FolderCheck:
    assert entry.suspicion is not None
    return FolderCheck(
        entry.path, entry.suspicion, entry.recovery_point or 0, entry.log_start or 0, cut
    )


def as_storage_error(error: OSError | DamagedError) -> StorageError:
    return StorageError(str(error)) if isinstance(error, OSError) else error


def damaged(path: str, error: Exception) -> DamagedFilesError:
    """The error of a folder that is still not usable after a check."""
    return DamagedFilesError(str(error), fingerprint_of(path))


def fingerprint_of(path: str) -> Hashable:
    """Names, sizes, times and inodes of the segments: it changes when one is replaced or written to."""
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(layout.LOG_SUFFIX):
                status = entry.stat()
                found.append((entry.name, status.st_size, status.st_mtime_ns, status.st_ino))
    return tuple(sorted(found))
