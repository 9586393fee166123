"""Keeps the query of a pipeline running: watches it, reports its progress, and restarts it after transient failures."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.pipeline.failure_policy import (
    DriverLostError,
    Failure,
    NextStep,
    Pauses,
    PipelineError,
    PipelineTakenOverError,
    judge,
    judge_connection,
)
from ottla.spark.pipeline.progress_report import Progress, progress_of
from ottla.spark.pipeline.stop_signals import Stop
from ottla.spark.pipeline.user_errors import own_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.spark.pipeline.pipeline import Pipeline

log = logging.getLogger("ottla.spark")

_LOOK_SECONDS: Final = 0.1
# Spark's whole message when a task has failed and the abort too.
_UNEXPLAINED: Final = "Writing job failed"


class Supervisor:
    """Keeps the query of a pipeline running."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        report: Callable[[Progress], None],
        stop: Stop,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._report = report
        self._stop = stop
        self._sleep = sleep or stop.sleep
        self._pauses = Pauses()
        self._restarts = 0
        self._seen: tuple[str, int, str] | None = None

    def run(self) -> None:
        """Run until the query ends by itself, fails for good, or a signal stops it."""
        while not self._stop.is_wanted:
            failure = self._run_once()
            if failure is None or self._stop.is_wanted:
                return
            if failure.next is NextStep.LEAVE:
                raise PipelineTakenOverError(failure.reason)
            if failure.next is NextStep.NEW_DRIVER:
                raise DriverLostError(failure.reason, self._pipeline.max_restarts)
            allowed = self._pipeline.max_restarts
            if failure.next is not NextStep.RESTART or (
                allowed is not None and self._restarts >= allowed
            ):
                raise PipelineError(f"pipeline {self._pipeline.name} stopped: {failure.reason}")
            self._restarts += 1
            pause = self._pauses.take()
            log.warning(
                "pipeline %s restarts in %.0f s: %s", self._pipeline.name, pause, failure.reason
            )
            self._sleep(pause)

    def _run_once(self) -> Failure | None:
        """Run the query once; its failure, or None if it has ended by itself."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        query: StreamingQuery | None = None
        try:
            query = self._pipeline.start(self._spark)
            # Its signature says int, and it takes fractions of a second.
            while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]
                self._look(query)
                if self._stop.notice():
                    query.stop()
            self._look(query)
        except ConnectionError as error:
            return judge_connection(error)
        except (PySparkException, Py4JError) as error:
            if not self._stop.is_wanted:
                log.debug("the query of pipeline %s failed", self._pipeline.name, exc_info=True)
            return judge(type(error).__name__, text_of(error)).at(own_place(error))
        except BaseException as error:
            # An error of the listener, or a second Ctrl-C: the query must not run on without its pipeline.
            if query is not None:
                query.stop()
            if isinstance(error, _ReportError):
                raise error.error from None
            raise
        return None

    def _look(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or not self._is_new(found := json.loads(last.json)):
            return
        if self._follows(found):
            self._report_progress(found)
            return
        # Several micro-batches since the last look. `recentProgress` is up to a hundred long texts, too many for each
        # look.
        for each in query.recentProgress:
            if self._is_new(found := json.loads(each.json)):
                self._report_progress(found)

    def _is_new(self, found: dict[str, Any]) -> bool:
        seen = self._seen
        return seen is None or seen[0] != found["runId"] or seen[1:] < _place(found)[1:]

    def _follows(self, found: dict[str, Any]) -> bool:
        """Whether no micro-batch can be between the last report and this one."""
        run, batch, _ = _place(found)
        if self._seen is None or self._seen[0] != run:
            return False
        return batch <= self._seen[1] + 1

    def _report_progress(self, found: dict[str, Any]) -> None:
        self._seen = _place(found)
        progress = progress_of(found)
        if progress.duration_ms:
            self._pauses.reset()
            self._restarts = 0
        try:
            self._report(progress)
        except Exception as error:
            raise _ReportError(error) from error


def text_of(error: Exception) -> str:
    """The text of an error; for one that Java raised, with Java's text."""
    raised = getattr(error, "java_exception", None)
    try:
        text = str(error) if raised is None else f"{error}\n: {raised.toString()}"
    except Exception:
        # Java is gone, or its error cannot be formatted.
        return repr(error.args)
    if _UNEXPLAINED in text:
        with suppress(Exception):  # Java is gone: its earlier text has to do
            cause = getattr(error, "_origin", None) if raised is None else raised
            while cause is not None and (cause.getMessage() or "") in text:
                cause = cause.getCause()
            if cause is not None:
                text += f"\nCaused by: {cause.toString()}"
    return text


def _place(found: dict[str, Any]) -> tuple[str, int, str]:
    """The key that orders the reports of a query."""
    return found["runId"], found["batchId"], found["timestamp"]


class _ReportError(Exception):
    """The progress listener failed: not a network failure, whatever the class of its error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error
