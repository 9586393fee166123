"""Bringing many logs to disk at once, when a store stops."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.storage.local.log import LocalLog
from ottla.storage.local.sync import run_sync

_SYNCS_AT_ONCE: Final = 64


def sync_side_by_side(logs: Sequence[LocalLog], executor: ThreadPoolExecutor) -> None:
    """Syncs logs in several threads; closing them one by one then has little left to wait for."""
    dirty = [log for log in logs if log.is_open and log.durability.is_dirty()]
    for start in range(0, len(dirty), _SYNCS_AT_ONCE):
        tasks = []
        for log in dirty[start : start + _SYNCS_AT_ONCE]:
            # No descriptor left: closing the log tries again.
            with contextlib.suppress(OSError):
                job = log.durability.take_sync_job()
                tasks.append((log, job, executor.submit(run_sync, job)))
        for log, job, task in tasks:
            error = task.exception()
            if error is None:
                log.durability.sync_succeeded(job, task.result())
            else:
                log.sync_failed(error if isinstance(error, OSError) else OSError(str(error)))
