"""Group commit: one sync of a log for everything that arrived during the last one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from ottla.ports import StorageError
from ottla.storage.local.log.segment import Segment
from ottla.storage.shared_future import SharedFuture

# macOS has no fdatasync.
_sync_data: Final = getattr(os, "fdatasync", os.fsync)


class SyncJob(NamedTuple):
    """The files to sync, so that everything below an offset is durable."""

    end_offset: int
    segments: Sequence[tuple[Segment, int]]  # with the size that will be durable
    fds: Sequence[int]  # owned by the job
    paths: Sequence[str]


class Syncable(Protocol):
    """A log, as its queue of syncs uses it."""

    def take_sync_job(self) -> SyncJob: ...

    def sync_succeeded(self, job: SyncJob, seconds: float) -> None: ...

    def sync_failed(self, error: OSError) -> StorageError:
        """Ends the claim; returns the error of those futures."""
        ...


def run_sync(job: SyncJob) -> float:
    """Syncs, and returns the seconds that it took; always closes the descriptors of the job."""
    began = time.perf_counter()
    try:
        for fd in job.fds:
            _sync_data(fd)
        for path in job.paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # deleted meanwhile
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    finally:
        for fd in job.fds:
            os.close(fd)
    return time.perf_counter() - began


class SyncQueue:
    """The syncs of one log, one after the other; those of different logs run side by side."""

    __slots__ = ("_executor", "_log", "_loop", "_next", "_running")

    def __init__(self, log: Syncable, executor: ThreadPoolExecutor) -> None:
        self._log = log
        self._executor = executor
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: SharedFuture | None = None
        self._running: ThreadFuture[float] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a sync runs, or is about to."""
        return self._running is not None or self._next is not None

    def request(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """A future that is done when everything appended so far is durable."""
        self._enter_loop(loop)
        if self._next is None:
            self._next = SharedFuture(loop=loop)
            if self._running is None:
                # At the end of this turn of the loop, so that all of its appends share the sync.
                loop.call_soon(self._start)
        return self._next

    def begin_unawaited(
        self, loop: asyncio.AbstractEventLoop, executor: ThreadPoolExecutor
    ) -> asyncio.Future[None] | None:
        """Begins a sync for which no client waits, on separate threads; None if one is about to run anyway."""
        self._enter_loop(loop)
        if self.is_busy:
            self.request(loop)
            return None
        waiter = SharedFuture(loop=loop)
        self._run(waiter, executor)
        return waiter

    def _enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forgets the syncs of an earlier event loop, which is closed."""
        if self._loop is loop:
            return
        if self._running is not None:
            error = self._running.exception()
            self._running = None
            if error is not None:
                raise self._log.sync_failed(_as_os_error(error))
        self._next = None
        self._loop = loop

    def _start(self) -> None:
        waiter = self._next
        if waiter is None or self._running is not None:
            return
        self._next = None
        self._run(waiter, self._executor)

    def _run(self, waiter: SharedFuture, executor: ThreadPoolExecutor) -> None:
        try:
            job = self._log.take_sync_job()
        except OSError as error:
            _fail(waiter, self._log.sync_failed(error))
            return
        loop = waiter.get_loop()

        def hand_back(done: ThreadFuture[float]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._finish, waiter, job, done)

        self._running = executor.submit(run_sync, job)
        self._running.add_done_callback(hand_back)

    def _finish(self, waiter: SharedFuture, job: SyncJob, done: ThreadFuture[float]) -> None:
        if waiter.get_loop() is not self._loop:
            return
        self._running = None
        error = done.exception()
        if error is None:
            self._log.sync_succeeded(job, done.result())
            waiter.set_result(None)
        else:
            failure = self._log.sync_failed(_as_os_error(error))
            _fail(waiter, failure)
            self.abandon(failure)
        self._start()

    def sync_now(self) -> None:
        """Syncs in this thread, and settles the future of the next sync; StorageError if it fails."""
        try:
            if self._running is not None:
                self._running.result()
            job = self._log.take_sync_job()
            seconds = run_sync(job)
        except OSError as error:
            failure = self._log.sync_failed(error)
            self.abandon(failure)
            raise failure from error
        self._log.sync_succeeded(job, seconds)
        waiter, self._next = self._next, None
        if waiter is not None and not waiter.get_loop().is_closed():
            waiter.set_result(None)

    def abandon(self, error: StorageError) -> None:
        """Fails the future of the next sync, which will not run."""
        waiter, self._next = self._next, None
        if waiter is not None:
            _fail(waiter, error)


def _fail(waiter: SharedFuture, error: StorageError) -> None:
    if not waiter.get_loop().is_closed():
        waiter.set_exception(error)
        waiter.exception()  # it is not always awaited


def _as_os_error(error: BaseException) -> OSError:
    return error if isinstance(error, OSError) else OSError(str(error))
