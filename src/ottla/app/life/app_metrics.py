"""What an app counts, for Prometheus and for its health: attached to the app through `Instruments`."""

from __future__ import annotations

from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType
from typing import Final

from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.client.model import Headers
from ottla.exposition import Metric, Page
from ottla.histogram import Histogram

# Handlers take from microseconds to minutes.
HANDLER_SECONDS: Final = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)
# Exception classes with series of their own; the others share one.
MAX_ERROR_CLASSES: Final = 50
OTHER_ERRORS: Final = "(others)"

RECORDS = Metric(
    "ottla_app_records_total",
    "counter",
    "Records that ended, by outcome: done, filtered, retry, dead-letter, ignored, stopped.",
)
FAILURES = Metric(
    "ottla_app_handler_failures_total",
    "counter",
    "Runs of a handler that raised, by the class of the exception.",
)
ATTEMPTS = Metric(
    "ottla_app_handler_retries_total",
    "counter",
    "Runs of a handler that were not the first attempt.",
)
DURATION = Metric(
    "ottla_app_handler_duration_seconds", "histogram", "How long runs of a handler took."
)
IN_FLIGHT = Metric(
    "ottla_app_handlers_in_flight", "gauge", "Runs of a handler that have not ended."
)
OLDEST = Metric(
    "ottla_app_handler_oldest_seconds",
    "gauge",
    "How long the oldest unfinished run of a handler has taken so far; 0 without one.",
)
COMMITTED = Metric("ottla_app_committed_records_total", "counter", "Records that were committed.")
COMMITS = Metric(
    "ottla_app_commit_duration_seconds", "histogram", "How long successful commits took."
)
PROGRESS = Metric(
    "ottla_app_seconds_since_progress",
    "gauge",
    "Since a record of the listener last ended; since the start before the first.",
)


class HandlerRun:
    """One run of a handler, from its start to its end. There is one for each record: it does as little as possible."""

    __slots__ = ("_counts", "_records", "attempt", "began")

    def __init__(self, counts: ListenerCounts, records: Sequence[RawRecord], attempt: int) -> None:
        self._counts = counts
        self._records = records
        self.attempt = attempt
        self.began = 0.0

    @property
    def count(self) -> int:
        """How many records it handles."""
        return len(self._records)

    @property
    def topic(self) -> str:
        """The topic of the first record."""
        return self._records[0].topic

    @property
    def partition(self) -> int:
        """The partition of the first record."""
        return self._records[0].partition

    @property
    def offset(self) -> int:
        """The offset of the first record."""
        return self._records[0].offset

    def __enter__(self) -> None:
        self.began = self._counts.now()
        self._counts.running[self] = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        counts = self._counts
        del counts.running[self]
        counts.seconds.observe(counts.now() - self.began)
        if self.attempt > 1:
            counts.retries += 1
        if kind is not None and issubclass(kind, CancelledError):
            counts.cancelled += 1
        elif kind is not None:
            counts.count_failure(kind)


class ListenerCounts:
    """The counts of one listener."""

    def __init__(self, spec: ListenerSpec, now: Callable[[], float]) -> None:
        self.spec = spec
        self.now = now
        self.started_at = now()
        self.outcomes = Counter[str]()
        self.failures = Counter[str]()
        self.retries = 0
        self.cancelled = 0
        """Runs that were given up, as at the time limit of a drain."""
        self.seconds = Histogram(HANDLER_SECONDS)
        self.commits = Histogram()
        self.committed = 0
        self.last_progress_at: float | None = None
        self.running: dict[HandlerRun, None] = {}  # in the order in which they began

    def count_failure(self, kind: type[BaseException]) -> None:
        """A run raised an exception of this class."""
        name = kind.__qualname__
        if name not in self.failures and len(self.failures) >= MAX_ERROR_CLASSES:
            name = OTHER_ERRORS
        self.failures[name] += 1

    def oldest_run(self) -> HandlerRun | None:
        """The run that began first of those that have not ended; may be called on any thread."""
        # A copy in one step: the event loop may add and remove runs meanwhile.
        runs = list(self.running)
        return runs[0] if runs else None

    def seconds_since_progress(self) -> float:
        """Since a record last ended, or since the start."""
        last = self.started_at if self.last_progress_at is None else self.last_progress_at
        return self.now() - last


class AppMetrics:
    """Counts what listeners do. The counts are written by the app's loop, and may be read on any thread."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._listeners: dict[str, ListenerCounts] = {}

    def listener(self, spec: ListenerSpec) -> ListenerCounts:
        """The counts of a listener; they begin when it is first asked for."""
        counts = self._listeners.get(spec.name)
        if counts is None:
            counts = self._listeners[spec.name] = ListenerCounts(spec, self._now)
        return counts

    def listeners(self) -> list[ListenerCounts]:
        """The counts of all listeners."""
        return list(self._listeners.values())

    # The hooks of Instruments

    def handling(
        self, spec: ListenerSpec, records: Sequence[RawRecord], attempt: int
    ) -> AbstractContextManager[None]:
        """Measure one run."""
        return HandlerRun(self.listener(spec), records, attempt)

    def finished(self, spec: ListenerSpec, outcome: str, records: int) -> None:
        """Count records that ended."""
        counts = self.listener(spec)
        counts.outcomes[outcome] += records
        counts.last_progress_at = self._now()

    def committed(self, spec: ListenerSpec, records: int, seconds: float) -> None:
        """Count a commit."""
        counts = self.listener(spec)
        counts.committed += records
        counts.commits.observe(seconds)

    def outgoing_headers(self, topic: str, headers: Headers) -> Headers:
        """The same headers."""
        return headers

    # The page

    def add_to(self, page: Page) -> None:
        """Add the samples of all listeners."""
        for counts in self.listeners():
            self._add_listener(page, counts)

    def _add_listener(self, page: Page, counts: ListenerCounts) -> None:
        labels = {"listener": counts.spec.name, "group": counts.spec.group}
        for outcome, records in sorted(counts.outcomes.copy().items()):
            page.add(RECORDS, records, **labels, outcome=outcome)
        for error, runs in sorted(counts.failures.copy().items()):
            page.add(FAILURES, runs, **labels, error=error)
        oldest = counts.oldest_run()
        page.add(ATTEMPTS, counts.retries, **labels)
        page.add(DURATION, counts.seconds, **labels)
        page.add(IN_FLIGHT, len(counts.running), **labels)
        page.add(OLDEST, 0.0 if oldest is None else self._now() - oldest.began, **labels)
        page.add(COMMITTED, counts.committed, **labels)
        page.add(COMMITS, counts.commits, **labels)
        page.add(PROGRESS, counts.seconds_since_progress(), **labels)
