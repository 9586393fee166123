"""The syncs that no client waits for: rolled segments, `flush.ms`, checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ottla.ports import StorageError
from ottla.storage.local import log_messages

if TYPE_CHECKING:
    from ottla.storage.local.log.partition_log import LocalLog


class BackgroundSyncs:
    """Syncs one log at a time, on separate threads.

    However many logs are dirty, this delays a sync for which a client waits by at most one other, and a turn of the
    event loop prepares at most one.
    """

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._loop: asyncio.AbstractEventLoop | None = None
        # Dicts for their order.
        self._urgent: dict[LocalLog, None] = {}
        self._checkpointed: dict[LocalLog, None] = {}
        self._end_checkpoint: Callable[[], None] | None = None
        self._is_running = False  # or will be, at the next turn of the loop

    @property
    def checkpoint_is_running(self) -> bool:
        return self._end_checkpoint is not None

    def sync_soon(self, log: LocalLog) -> None:
        """Syncs a log before those of a checkpoint; at once outside of an event loop."""
        if self._enter_loop():
            self._urgent[log] = None
            self._go_on()
        else:
            log.flush()

    def checkpoint(self, logs: Iterable[LocalLog], end: Callable[[], None]) -> None:
        """Brings the indexes of logs up to date and syncs them, then calls `end`."""
        if self._enter_loop():
            self._checkpointed.update(dict.fromkeys(logs))
            self._end_checkpoint = end
            self._go_on()
            return
        for log in logs:
            _guarded(log, log.write_index)
            _guarded(log, log.flush)
        end()

    def stop(self) -> None:
        """Begins no more syncs: the store closes, which syncs everything."""
        self._urgent.clear()
        self._checkpointed.clear()
        self._end_checkpoint = None

    def _enter_loop(self) -> bool:
        """Whether an event loop is running; the work of an earlier loop is forgotten."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._loop is not loop:
            self._loop = loop
            self._is_running = False
        return True

    def _go_on(self) -> None:
        """Begins the next sync, unless one is running."""
        if self._is_running:
            return
        if self._urgent:
            log = next(iter(self._urgent))
            del self._urgent[log]
            self._begin(log)
        elif self._checkpointed:
            log = next(iter(self._checkpointed))
            del self._checkpointed[log]
            if log.is_open:
                _guarded(log, log.write_index)
            self._begin(log)
        elif self._end_checkpoint is not None:
            end, self._end_checkpoint = self._end_checkpoint, None
            end()

    def _begin(self, log: LocalLog) -> None:
        loop = self._loop
        assert loop is not None
        self._is_running = True
        begun = None
        if log.is_open:
            try:
                begun = log.durability.flush_unawaited(loop, self._threads)
            except StorageError as error:
                log_messages.log_flush_failed(log.ref, error)
        if begun is None:
            loop.call_soon(self._done, loop)
        else:
            begun.add_done_callback(lambda done: self._done(loop))

    def _done(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is self._loop:
            self._is_running = False
            self._go_on()


def _guarded(log: LocalLog, work: Callable[[], object]) -> None:
    """Calls a function of a log; logs its failure, so that the other logs are synced, too."""
    try:
        work()
    except (StorageError, OSError) as error:
        log_messages.log_flush_failed(log.ref, error)
