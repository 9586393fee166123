"""Several processes of one app: starts them, restarts those that die, drains them, and speaks for all of them."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.app.life.process import UNUSABLE
from ottla.app.life.source_watch import SourceWatch
from ottla.app.life.worker_link import LINK_VARIABLE, SupervisorEnd, add_samples
from ottla.client.state.backoff import Backoff
from ottla.events import EventLog
from ottla.exposition import Metric, Page

logger = EventLog("ottla.app")

WORKERS = Metric("ottla_app_workers", "gauge", "Worker processes that run.")
RESTARTS = Metric(
    "ottla_app_worker_restarts_total", "counter", "Restarts of worker processes that died."
)

_BACKOFF: Final = Backoff(initial_ms=500, max_ms=60_000)
# A worker that has lived so long has recovered from what killed those before it.
_STABLE_SECONDS: Final = 60.0
_PERIOD_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5
# What a worker may take to end after the time limit of its handlers: its last commit, leaving the group.
_LEAVE_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """How workers are started and stopped."""

    command: Sequence[str]
    workers: int
    drain_seconds: float
    watches_sources: bool = False
    first_files: frozenset[str] = frozenset()


class WorkerProcess:
    """One place among the workers: the process that is in it now, or when the next one starts."""

    def __init__(self, number: int, plan: WorkerPlan) -> None:
        self.number = number
        self.restarts = 0
        self.starts_at: float | None = 0.0
        """When the next process starts; None while one runs, or if there is to be none."""
        self.process: subprocess.Popen[bytes] | None = None
        self.link: SupervisorEnd | None = None
        self._plan = plan
        self._started_at = 0.0
        self._deaths = 0

    def start(self, now: float) -> None:
        """Start a process."""
        self.link = link = SupervisorEnd()
        number = link.workers_end.fileno()
        self.process = subprocess.Popen(
            self._plan.command,
            pass_fds=(number,),
            env={**os.environ, LINK_VARIABLE: str(number)},
            # Ctrl-C of the terminal reaches only the supervisor, which drains the workers.
            start_new_session=True,
        )
        link.started()
        self._started_at, self.starts_at = now, None

    def poll(self, now: float) -> int | None:
        """The exit code of a process that has just ended; the next one is due after a pause."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        self.forget()
        self._deaths = 0 if now - self._started_at >= _STABLE_SECONDS else self._deaths + 1
        pause = _BACKOFF.delay_ms(max(self._deaths - 1, 0), random.random()) / 1000
        self.starts_at = now + pause
        return code

    def start_afresh(self, now: float) -> None:
        """Start at once, as if nothing had gone wrong before."""
        self._deaths = 0
        self.starts_at = now

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal, if there is one."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def forget(self) -> None:
        """The process has ended."""
        if self.link is not None:
            self.link.close()
        self.process = self.link = None


class Supervisor:
    """Runs workers until a signal; its main thread supervises, the health server asks it on others."""

    def __init__(self, plan: WorkerPlan, *, now: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._now = now
        self._workers = [WorkerProcess(number, plan) for number in range(plan.workers)]
        self._signals: list[signal.Signals] = []
        # Signal handlers may do little; to put into this queue is allowed at any moment.
        self._arrived = queue.SimpleQueue[signal.Signals]()
        self._watch = SourceWatch(plan.first_files)
        self._looked_at = 0.0

    def run(self) -> int:
        """Run until SIGTERM or SIGINT; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: self._arrived.put(signal.Signals(number)))
        while not self._signals:
            code = self._step(self._now())
            if code is not None:
                self._stop_workers()
                return code
            self._wait()
        logger.info(
            "workers_draining",
            "%(signal)s: %(workers)d worker(s) drain, for at most %(seconds)g s",
            signal=self._signals[0].name,
            workers=sum(worker.process is not None for worker in self._workers),
            seconds=self._plan.drain_seconds,
        )
        return self._stop_workers()

    # Answers for the health server

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Healthy if every worker that runs is; a worker that does not answer is not."""
        return self._combined("health", "ok", "failing")

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Ready if every worker is."""
        return self._combined("readiness", "ready", "not ready")

    def page(self) -> Page:
        """The metrics of all workers, with a label for each."""
        page = Page()
        page.add(WORKERS, sum(worker.process is not None for worker in self._workers))
        page.add(RESTARTS, sum(worker.restarts for worker in self._workers))
        for worker in self._workers:
            link = worker.link
            report = None if link is None else link.report()
            if report is not None:
                add_samples(page, report["samples"], worker=str(worker.number))
        return page

    def _combined(self, key: str, good: str, bad: str) -> tuple[bool, dict[str, Any]]:
        reasons: list[str] = []
        workers: dict[str, Any] = {}
        for worker in self._workers:
            link = worker.link
            report = None if link is None else link.report()
            if report is None:
                what = "does not run" if link is None else "does not answer"
                reasons.append(f"worker {worker.number} {what}")
                continue
            is_good, details = report[key]
            workers[str(worker.number)] = details
            if not is_good:
                reasons += [f"worker {worker.number}: {each}" for each in details["reasons"]]
        status = bad if reasons else good
        return not reasons, {"status": status, "reasons": reasons, "workers": workers}

    # The main thread

    def _wait(self) -> None:
        """Wait a little, or until a signal arrives."""
        with contextlib.suppress(queue.Empty):
            self._signals.append(self._arrived.get(timeout=_PERIOD_SECONDS))

    def _step(self, now: float) -> int | None:
        """Start what is due, notice what has ended or changed; an exit code if there is nothing more to do."""
        for worker in self._workers:
            code = worker.poll(now)
            if code is not None:
                self._worker_ended(worker, code, now)
                if code == UNUSABLE and not self._plan.watches_sources:
                    return code
            if worker.starts_at is not None and worker.starts_at <= now:
                worker.start(now)
        if self._plan.watches_sources and now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            self._look_at_sources()
        return None

    def _worker_ended(self, worker: WorkerProcess, code: int, now: float) -> None:
        if code == UNUSABLE:
            worker.starts_at = None
            if self._plan.watches_sources:
                logger.info(
                    "program_unusable",
                    "worker %(worker)d waits for a change of the program's files",
                    worker=worker.number,
                )
            return
        worker.restarts += 1
        assert worker.starts_at is not None
        logger.warning(
            "worker_died",
            "worker %(worker)d ended with %(how)s; another one starts in %(seconds).1f s",
            worker=worker.number,
            how=f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}",
            seconds=worker.starts_at - now,
        )

    def _look_at_sources(self) -> None:
        for worker in self._workers:
            if worker.link is not None:
                self._watch.add(worker.link.files)
        changed = self._watch.changed()
        if changed is None:
            return
        logger.info("sources_changed", "%(file)s has changed: the workers restart", file=changed)
        self._end_processes()
        for worker in self._workers:
            worker.start_afresh(self._now())

    def _stop_workers(self) -> int:
        """Drain all; at the second signal, or after the time limit, kill. Returns the exit code."""
        codes = self._end_processes()
        is_clean = all(code == 0 for code in codes)
        logger.info("workers_ended", "all workers have ended")
        return 0 if is_clean else 1

    def _end_processes(self) -> list[int]:
        """Let all processes drain, and kill those that do not end; their exit codes."""
        running = [worker for worker in self._workers if worker.process is not None]
        processes = [worker.process for worker in running if worker.process is not None]
        for worker in running:
            worker.send(signal.SIGTERM)
        deadline = self._now() + self._plan.drain_seconds + _LEAVE_SECONDS
        signals_before = max(len(self._signals), 1)
        while any(process.poll() is None for process in processes):
            if len(self._signals) > signals_before or self._now() >= deadline:
                for worker in running:
                    worker.send(signal.SIGKILL)
                logger.warning("workers_killed", "workers that had not ended were killed")
                break
            self._wait()
        codes = [process.wait() for process in processes]
        for worker in running:
            worker.forget()
        return codes
