"""One process of an app: it runs until a signal, drains, and says in one line how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.app.life.app_metrics import AppMetrics
from ottla.app.life.health_server import HealthServer
from ottla.app.life.listener_report import ListenerReport
from ottla.app.life.monitor import AppMonitor
from ottla.app.life.program import source_files
from ottla.app.life.worker_link import WorkerEnd
from ottla.doors.door import Door
from ottla.errors import ConfigError, OttlaError
from ottla.event_loop import new_event_loop
from ottla.events import EventLog

logger = EventLog("ottla.app")

DONE, FAILED = 0, 1
# The program cannot be run: another attempt would end in the same way.
UNUSABLE: Final = 2
# After the time limit of the handlers: the last commit, leaving groups, closing connections.
LEAVE_SECONDS: Final = 10.0


class RunnableApp(Protocol):
    """What the process needs of an app."""

    @property
    def name(self) -> str:
        """The name of the app."""

    @property
    def metrics(self) -> AppMetrics:
        """What the app counts."""

    @property
    def monitor(self) -> AppMonitor:
        """What watches the app."""

    async def start(self) -> None:
        """Start all listeners; raises if one cannot start."""

    async def stop(self, timeout_seconds: float) -> None:
        """Take no new records, let handlers finish within the time limit, commit, leave the groups."""

    async def failure(self) -> BaseException:
        """Wait until a listener fails fatally."""

    def reports(self) -> Sequence[ListenerReport]:
        """The listeners at this moment; called on the app's loop."""


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """How the process of an app runs."""

    health: Door | None = None
    drain_seconds: float = 30.0


class AppProcess:
    """Runs an app in this process, whose main thread calls `run`."""

    def __init__(
        self, app: RunnableApp, settings: ProcessSettings, link: WorkerEnd | None = None
    ) -> None:
        self._app = app
        self._settings = settings
        self._link = link
        self._loop = new_event_loop()
        self._stopping = asyncio.Event()
        self._ended = False
        self.failure: BaseException | None = None
        """Why the app failed, after `run`."""
        # Signal handlers may do little; to put into this queue is allowed at any moment.
        self._signals = queue.SimpleQueue[signal.Signals]()
        self._monitor = app.monitor
        self._server = (
            None if settings.health is None else HealthServer(settings.health, self._monitor)
        )

    def run(self) -> int:
        """Run until SIGTERM, SIGINT or a fatal failure; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not the loop's own handlers: these arrive even while a handler blocks the loop.
            signal.signal(number, lambda number, _: self._signals.put(signal.Signals(number)))
        watcher = threading.Thread(
            target=self._watch_signals, name="ottla-app-signals", daemon=True
        )
        watcher.start()
        asyncio.set_event_loop(self._loop)
        try:
            return self._loop.run_until_complete(self._run())
        finally:
            self._ended = True
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _run(self) -> int:
        self._monitor.start()
        if self._server is not None:
            self._server.start()
        if self._link is not None:
            self._link.serve(self._monitor, source_files)
        try:
            return await self._run_app()
        finally:
            self._monitor.stop()
            if self._server is not None:
                self._server.stop()

    async def _run_app(self) -> int:
        failure = await self._first(self._app.start())
        if failure is not None:
            self._tell_failure(failure)
            # A wrong option is wrong at the next start, too.
            return UNUSABLE if isinstance(failure, ConfigError) else FAILED
        if not self._stopping.is_set():
            self._say_running()
            failure = await self._first(self._app.failure())
            if failure is not None:
                self._tell_failure(failure)
        is_drained = await self._drain()
        return DONE if failure is None and is_drained else FAILED

    def _tell_failure(self, failure: BaseException) -> None:
        self.failure = failure
        logger.error(
            "app_failed",
            "app %(app)s has failed: %(error)s",
            app=self._app.name,
            error=_text_of(failure),
        )
        # The line stands for itself; the traceback is for the search of the cause.
        _log_traceback(failure)

    async def _first(self, work: Coroutine[Any, Any, BaseException | None]) -> BaseException | None:
        """Do some work until it ends or the process is to stop; the failure that it raised or returned."""
        task = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if task.cancelled():
            return None
        error = task.exception()
        return task.result() if error is None else error

    def _say_running(self) -> None:
        reports = self._app.reports()
        where = "" if self._server is None else f", health at {self._server.door.url}/healthz"
        logger.info(
            "app_running",
            "app %(app)s runs with %(listeners)d listener(s)%(health)s",
            app=self._app.name,
            listeners=len(reports),
            health=where,
        )

    async def _drain(self) -> bool:
        """Stop the app; whether everything in hand was finished."""
        limit = self._settings.drain_seconds
        self._monitor.draining("the app drains and takes no new records")
        in_hand = self._in_hand()
        if in_hand:
            logger.info(
                "app_draining",
                "draining: %(handlers)d handler(s) in hand, for at most %(seconds)g s",
                handlers=in_hand,
                seconds=limit,
            )
        began, given_up = time.monotonic(), self._given_up()
        try:
            await self._app.stop(limit)
        except Exception as error:
            logger.error(
                "drain_failed", "the app did not stop cleanly: %(error)s", error=_text_of(error)
            )
            _log_traceback(error)
            return False
        left, seconds = self._in_hand() + self._given_up() - given_up, time.monotonic() - began
        if left:
            logger.warning(
                "drain_cut_short",
                "stopped after %(seconds).1f s with %(handlers)d handler(s) unfinished, whose records will be handled "
                "again",
                seconds=seconds,
                handlers=left,
            )
            return False
        logger.info("app_stopped", "stopped cleanly in %(seconds).3f s", seconds=seconds)
        return True

    def _in_hand(self) -> int:
        return sum(len(counts.running) for counts in self._app.metrics.listeners())

    def _given_up(self) -> int:
        return sum(counts.cancelled for counts in self._app.metrics.listeners())

    def _unfinished(self) -> str:
        """The oldest unfinished run of each listener."""
        found = []
        for counts in self._app.metrics.listeners():
            run = counts.oldest_run()
            if run is not None:
                found.append(
                    f"listener {counts.spec.name} on {run.topic}-{run.partition}, offset {run.offset}"
                )
        return "; ".join(found)

    # On the thread of the signals

    def _watch_signals(self) -> None:
        first = self._signals.get()
        logger.info("signal", "%(signal)s: the app stops", signal=first.name)
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(self._stopping.set)
        limit = self._settings.drain_seconds + LEAVE_SECONDS
        try:
            second = self._signals.get(timeout=limit)
        except queue.Empty:
            if not self._ended:
                self._end_at_once(
                    f"the app has not stopped {limit:g} s after {first.name}", code=FAILED
                )
            return
        self._end_at_once(f"a second signal, {second.name}", code=128 + second.value)

    def _end_at_once(self, because: str, *, code: int) -> None:
        stalls = self._monitor.health()[1]["stalls"]
        which = "; ".join(stalls) or self._unfinished() or "nothing was in hand"
        logger.warning(
            "app_ended_at_once",
            "%(because)s: ended at once, unfinished records will be handled again: %(which)s",
            because=because,
            which=which,
        )
        logging.shutdown()
        os._exit(code)


def _text_of(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OttlaError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _log_traceback(error: BaseException) -> None:
    logging.getLogger("ottla.app").debug("the failure in full", exc_info=error)
