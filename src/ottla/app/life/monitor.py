"""Watches an app from a thread of its own: health, readiness, and a log line for each stall and its end."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from ottla.app.life.app_metrics import AppMetrics, HandlerRun, ListenerCounts
from ottla.app.life.blocked_loop import BlockedLoop, LoopProbe
from ottla.app.life.listener_report import ListenerReport, Stall
from ottla.app.listening.listener_health import ListenerStatus
from ottla.events import EventLog
from ottla.exposition import Metric, Page
from ottla.version import VERSION

logger = EventLog("ottla.app")

LAG = Metric("ottla_app_lag_records", "gauge", "Records behind the listener, by partition.")
ASSIGNED = Metric("ottla_app_assigned_partitions", "gauge", "Partitions assigned to the listener.")
REBALANCES = Metric(
    "ottla_app_rebalances_total", "counter", "Times that the listener's partitions changed."
)
STALLED = Metric("ottla_app_stalls", "gauge", "Reasons why the listener makes no progress now.")
BLOCKED = Metric(
    "ottla_app_loop_blocked_seconds",
    "gauge",
    "How long a synchronous call has held the event loop; 0 if none does.",
)
INFO = Metric("ottla_app_info", "gauge", "The app and the version of Ottla, as labels; always 1.")

_LOOP_KEY: Final = "loop"
# A listener that is stalled takes part in its group all the same.
WORKING: Final = (ListenerStatus.RUNNING, ListenerStatus.PAUSED, ListenerStatus.STALLED)


@dataclass(frozen=True, kw_only=True)
class HealthRules:
    """When something is a stall, and when it makes the process unhealthy; in seconds."""

    check_seconds: float = 0.5
    stall_seconds: float = 30.0
    """A handler that runs longer is reported; so is a loop that is blocked for `blocked_seconds`."""
    blocked_seconds: float = 2.0
    unhealthy_blocked_seconds: float = 10.0
    rebalance_seconds: float = 60.0
    """A listener that was ready stays so for this time while its group rebalances."""


Answer = tuple[bool, dict[str, Any]]


class AppMonitor:
    """The health of an app; `start` and `stop` are called on the app's loop, the rest on any thread."""

    def __init__(
        self,
        app_name: str,
        metrics: AppMetrics,
        listeners: Callable[[], Sequence[ListenerReport]],
        rules: HealthRules | None = None,
        *,
        functions: Callable[[], Mapping[str, Callable[..., Any]]] = dict,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`listeners` is called on the app's loop; `functions` are the handlers by the names of their listeners."""
        self.metrics = metrics
        self._app_name = app_name
        self._gather = listeners
        self._functions = functions
        self.rules = HealthRules() if rules is None else rules
        self._now = now
        self._probe: LoopProbe | None = None
        self._reports: Sequence[ListenerReport] = ()
        self._ready_at: dict[str, float] = {}
        self._blocked: BlockedLoop | None = None
        self._told: dict[str, tuple[float, str]] = {}
        self._stopping: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch the running loop; nothing happens if it is watched already."""
        if self._thread is not None:
            return
        self._stopping = None
        self._stop.clear()
        self._probe = LoopProbe(asyncio.get_running_loop(), self._refresh, now=self._now)
        self._refresh()
        self._thread = threading.Thread(target=self._watch, name="ottla-app-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def draining(self, because: str) -> None:
        """From now on the app is not ready."""
        self._stopping = because

    def check(self) -> None:
        """One look at the app, which logs new stalls and those that are over."""
        assert self._probe is not None
        self._blocked = self._probe.poll(self.rules.blocked_seconds)
        self._tell({stall.key: stall for stall in self._stalls()})

    # Answers

    def health(self) -> Answer:
        """Whether the process makes progress as far as it can, and a report for people."""
        stalls = self._stalls()
        reasons = [stall.text for stall in stalls if stall.is_fatal]
        reasons += [
            f"listener {report.name} has failed: {report.failure}"
            for report in self._reports
            if report.status is ListenerStatus.FAILED
        ]
        blocked = self._blocked
        answer: dict[str, Any] = {
            "status": "failing" if reasons else "ok",
            "app": self._app_name,
            "reasons": reasons,
            "stalls": [stall.text for stall in stalls],
            "listeners": {report.name: self._details(report) for report in self._reports},
        }
        if blocked is not None:
            answer["blocked_stack"] = list(blocked.stack)
        return not reasons, answer

    def readiness(self) -> Answer:
        """Whether all listeners take part in their groups, and if not, which do not and why."""
        reasons = [] if self._stopping is None else [self._stopping]
        if not self._reports and self._thread is None and not reasons:
            reasons.append("the app has not started")
        reasons += [reason for each in self._reports if (reason := self._not_ready(each))]
        answer = {
            "status": "not ready" if reasons else "ready",
            "app": self._app_name,
            "reasons": reasons,
        }
        return not reasons, answer

    def page(self) -> Page:
        """The metrics."""
        page = Page()
        page.add(INFO, 1, app=self._app_name, version=VERSION)
        blocked = self._blocked
        page.add(BLOCKED, 0.0 if blocked is None else self._now() - blocked.since)
        self.metrics.add_to(page)
        for report in self._reports:
            labels = {"listener": report.name, "group": report.group}
            page.add(ASSIGNED, report.partitions, **labels)
            page.add(REBALANCES, report.rebalances, **labels)
            page.add(STALLED, len(report.stalls), **labels)
            for (topic, partition), lag in sorted(report.lag.items()):
                page.add(LAG, lag, **labels, topic=topic, partition=str(partition))
        return page

    # On the loop

    def _refresh(self) -> None:
        self._reports = reports = list(self._gather())
        now = self._now()
        for report in reports:
            if report.status in WORKING:
                self._ready_at[report.name] = now

    # On the monitor's thread

    def _watch(self) -> None:
        while not self._stop.wait(self.rules.check_seconds):
            try:
                self.check()
            except Exception as error:
                logger.bug("monitor_failed", "a check of the app failed: this is a bug", error)

    def _tell(self, stalls: Mapping[str, Stall]) -> None:
        for key in [key for key in self._told if key not in stalls]:
            since, text = self._told.pop(key)
            logger.info(
                "stall_ended",
                "it goes on after %(seconds).1f s; before: %(stall)s",
                stall=text,
                seconds=self._now() - since,
            )
        for key, stall in stalls.items():
            if key not in self._told:
                self._told[key] = (self._now(), stall.text)
                logger.warning("stall", "%(stall)s", stall=stall.text)

    # Reasons

    def _stalls(self) -> list[Stall]:
        found = []
        blocked = self._blocked
        if blocked is not None:
            found.append(self._blocked_stall(blocked))
        for counts in self.metrics.listeners():
            run = counts.oldest_run()
            if run is not None and self._now() - run.began >= self._patience_for(counts):
                found.append(self._handler_stall(counts, run))
        for report in self._reports:
            found += report.stalls
        return found

    def _patience_for(self, counts: ListenerCounts) -> float:
        limit = counts.spec.handler_timeout_seconds
        return self.rules.stall_seconds if limit is None else min(limit, self.rules.stall_seconds)

    def _handler_stall(self, counts: ListenerCounts, run: HandlerRun) -> Stall:
        spec, seconds = counts.spec, self._now() - run.began
        what = f"{run.topic}-{run.partition}, offset {run.offset}"
        if run.count > 1:
            what = f"{run.count} records from {what} on"
        text = (
            f"listener {spec.name}: its handler has been running for {seconds:.1f} s "
            f"on {what} (attempt {run.attempt})"
        )
        limit = spec.handler_timeout_seconds
        is_over = limit is not None and seconds >= limit + self.rules.unhealthy_blocked_seconds
        if is_over:
            text += f", beyond its handler_timeout of {limit:g} s"
        return Stall(
            f"{spec.name} runs {run.topic}-{run.partition}@{run.offset}", text, is_fatal=is_over
        )

    def _blocked_stall(self, blocked: BlockedLoop) -> Stall:
        seconds = self._now() - blocked.since
        names = [
            name
            for name, function in self._functions().items()
            if getattr(inspect.unwrap(function), "__code__", None) in blocked.codes
        ]
        where = f"in the handler of listener {names[0]}, " if names else ""
        return Stall(
            _LOOP_KEY,
            f"the event loop has been blocked for {seconds:.1f} s by a synchronous call {where}{blocked.place}",
            is_fatal=seconds >= self.rules.unhealthy_blocked_seconds,
        )

    def _not_ready(self, report: ListenerReport) -> str | None:
        if report.seconds_without_broker >= self.rules.rebalance_seconds:
            return f"listener {report.name} reaches no broker for {report.seconds_without_broker:.0f} s"
        if report.status in WORKING:
            return None
        if report.status is ListenerStatus.FAILED:
            return f"listener {report.name} has failed: {report.failure}"
        ready_at = self._ready_at.get(report.name)
        if report.status is ListenerStatus.REBALANCING and ready_at is not None:
            seconds = self._now() - ready_at
            if seconds < self.rules.rebalance_seconds:
                return None
            return f"listener {report.name} has been without partitions for {seconds:.0f} s, its group rebalances"
        because = f": {report.stalls[0].text}" if report.stalls else ""
        return f"listener {report.name} is {report.status}{because}"

    def _details(self, report: ListenerReport) -> dict[str, Any]:
        counts = next(
            (each for each in self.metrics.listeners() if each.spec.name == report.name), None
        )
        details: dict[str, Any] = {
            "status": report.status.value,
            "group": report.group,
            "partitions": report.partitions,
            "lag": sum(report.lag.values()) if report.lag else None,
            "stalls": [stall.text for stall in report.stalls],
        }
        if counts is not None:
            details["handlers_in_flight"] = len(counts.running)
            details["seconds_since_progress"] = round(counts.seconds_since_progress(), 3)
        return details
