"""Bringing many logs to disk at once, when a store stops."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, NamedTuple

from ottla.storage.local import log_messages
from ottla.storage.local.log.partition_log import LocalLog
from ottla.storage.local.sync.group_commit import SyncJob, run_sync

# A stop logs this often that it waits for the disk.
_LOG_SECONDS: Final = 1.0


class ClosedLog(NamedTuple):
    """A log that was synced; `is_new` if the data folder does not list it durably yet."""

    job: SyncJob
    seconds: float
    is_new: bool


def write_side_by_side(logs: Sequence[LocalLog], folder: str, executor: ThreadPoolExecutor) -> bool:
    """Writes and syncs logs in several threads, so that closing them one by one does not wait for the disk.

    Returns whether the data folder has to be synced: once for all new partitions.
    """
    open_logs = [log for log in logs if log.is_open]
    if not open_logs:
        return False
    log_messages.log_closing(len(open_logs))
    # All are written before the first is synced: a file system writes the new names of all of them together.
    _wait([executor.submit(log.write_last) for log in open_logs])
    tasks = {executor.submit(_sync, log, folder): log for log in open_logs}
    _wait(tasks)
    folder_is_dirty = False
    for task, log in tasks.items():
        error = task.exception()
        if error is not None:
            log.sync_failed(error if isinstance(error, OSError) else OSError(str(error)))
        elif (written := task.result()) is not None:
            log.durability.sync_succeeded(written.job, written.seconds)
            folder_is_dirty |= written.is_new
    return folder_is_dirty


def _wait(tasks: Collection[Future[Any]]) -> None:
    """Waits for the storage threads, and logs it if that takes long."""
    began = time.monotonic()
    left = set(tasks)
    while left:
        _, left = wait(left, _LOG_SECONDS)
        if left:
            log_messages.log_disk_is_slow(len(left), len(tasks), time.monotonic() - began)


def _sync(log: LocalLog, folder: str) -> ClosedLog | None:
    """Runs in another thread, while no other thread uses the log; None if there was nothing to sync."""
    if not log.durability.is_dirty():
        return None
    job = log.durability.take_sync_job()
    paths = [path for path in job.paths if path != folder]
    return ClosedLog(job, run_sync(job._replace(paths=paths)), len(paths) < len(job.paths))
