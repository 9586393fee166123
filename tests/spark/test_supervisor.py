"""A pipeline's query is kept running: with queries that fail as they are told to, and no Spark."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException

from ottla.spark.pipeline.failure_policy import (
    DriverLostError,
    PipelineError,
    PipelineTakenOverError,
)
from ottla.spark.pipeline.progress_report import Progress
from ottla.spark.pipeline.stop_signals import Stop
from ottla.spark.pipeline.supervisor import Supervisor

RETRIABLE = StreamingQueryException("ottla.errors.RetriableError: NETWORK_EXCEPTION (13): gone")
TAKEN_OVER = StreamingQueryException(
    "ottla.spark.sink.progress.TakenOverError: another instance took over"
)
BUG = StreamingQueryException("ValueError: of the user")


class Query:
    """Reports some micro-batches, then ends or fails."""

    def __init__(self, run: str, batches: int, failure: BaseException | None) -> None:
        self.run, self.batches, self.failure = run, batches, failure
        self.looks = 0
        self.is_stopped = False

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        self.looks += 1
        if self.is_stopped and self.failure is None:
            return True
        if self.looks <= self.batches:
            return False
        if self.failure is not None:
            raise self.failure
        return True

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return [
            SimpleNamespace(
                json=json.dumps(
                    {
                        "runId": self.run,
                        "batchId": number,
                        "timestamp": f"2026-01-01T00:00:{number:02}Z",
                        "durationMs": {"triggerExecution": 1},
                        "sources": [],
                    }
                )
            )
            for number in range(min(self.looks, self.batches))
        ]

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return (self.recentProgress or [None])[-1]

    def stop(self) -> None:
        self.is_stopped = True


class Program:
    """Stands where the pipeline does: gives one query after the other."""

    name = "fraud"

    def __init__(self, queries: Sequence[Query | BaseException], most: int | None = None) -> None:
        self.queries = list(queries)
        self.max_restarts = most

    def start(self, spark: object) -> Query:
        found = self.queries.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found


def supervise(program: Program, told_at: int = -1) -> tuple[list[int], list[float]]:
    """The micro-batches that were told and the pauses that were made; after one of them a signal comes."""
    told: list[int] = []
    pauses: list[float] = []

    def report(progress: Progress) -> None:
        told.append(progress.batch)
        if progress.batch == told_at:
            signal.raise_signal(signal.SIGTERM)

    with Stop() as stop:
        Supervisor(program, None, report, stop, pauses.append).run()  # type: ignore[arg-type]
        assert stop.is_wanted == (told_at >= 0)
    return told, pauses


def test_every_micro_batch_is_told_once() -> None:
    assert supervise(Program([Query("a", 3, None)])) == ([0, 1, 2], [])


def test_a_failure_that_may_pass_begins_again_with_growing_pauses() -> None:
    program = Program([Query("a", 0, RETRIABLE), RETRIABLE, Query("c", 2, None)])
    assert supervise(program) == ([0, 1], [1.0, 2.0])


def test_a_micro_batch_that_was_done_resets_the_pauses() -> None:
    program = Program(
        [
            Query("a", 0, RETRIABLE),
            Query("b", 1, RETRIABLE),
            Query("c", 0, RETRIABLE),
            Query("d", 0, None),
        ]
    )
    assert supervise(program)[1] == [1.0, 1.0, 2.0]


def test_restarts_without_any_progress_may_be_limited() -> None:
    program = Program([Query(str(number), 0, RETRIABLE) for number in range(5)], most=2)
    with pytest.raises(PipelineError, match="fraud stopped: NETWORK_EXCEPTION"):
        supervise(program)
    assert len(program.queries) == 2


class JavaError:
    """Stands where an exception in Java does."""

    def __init__(self, message: str, cause: JavaError | None = None) -> None:
        self.message, self.cause = message, cause

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCause(self) -> JavaError | None:  # noqa: N802
        return self.cause

    def toString(self) -> str:  # noqa: N802
        return f"org.apache.spark.SparkException: {self.message}"


class CapturedError(StreamingQueryException):
    """As PySpark gives it, with the exception in Java that it stands for."""

    def __init__(self, message: str, origin: JavaError) -> None:
        super().__init__(message)
        self._origin = origin


def failed_writing(reason: str) -> StreamingQueryException:
    """As Spark tells it when the abort fails too, because the broker is still away."""
    lost = JavaError(f"Task 0 in stage 3.0 failed 1 times\n{reason}\n SQLSTATE: 38000")
    failed = JavaError("terminated: Writing job failed.", JavaError("Writing job failed.", lost))
    return CapturedError("[STREAM_FAILED] terminated: Writing job failed.", failed)


def test_what_failed_first_counts_when_the_abort_fails_too() -> None:
    away = failed_writing("ottla.errors.TimedOutError: REQUEST_TIMED_OUT (7): No broker")
    assert supervise(Program([Query("a", 0, away), Query("b", 0, None)])) == ([], [1.0])
    with pytest.raises(PipelineError, match="fraud stopped: ValueError: of the user"):
        supervise(Program([Query("a", 0, failed_writing("ValueError: of the user"))]))


def test_causes_count_only_where_spark_says_nothing_itself() -> None:
    away = JavaError("ottla.errors.RetriableError: NETWORK_EXCEPTION (13): gone")
    failure = CapturedError("ValueError: of the user", JavaError("ValueError: of the user", away))
    with pytest.raises(PipelineError, match="fraud stopped: ValueError: of the user"):
        supervise(Program([Query("a", 0, failure)]))


def test_what_java_said_before_it_went_counts() -> None:
    class GoneError(JavaError):
        def getCause(self) -> JavaError | None:  # noqa: N802
            raise ConnectionResetError

    said = "ottla.errors.RetriableError: NETWORK_EXCEPTION (13): gone\nWriting job failed."
    failure = CapturedError(said, GoneError("Writing job failed."))
    assert supervise(Program([Query("a", 0, failure), Query("b", 0, None)])) == ([], [1.0])


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (TAKEN_OVER, PipelineTakenOverError),
        (BUG, PipelineError),
        (ConnectionRefusedError("Java side is down"), DriverLostError),
    ],
)
def test_other_failures_end_it(failure: BaseException, error: type[Exception]) -> None:
    program = Program([Query("a", 1, failure), Query("b", 0, None)])
    with pytest.raises(error):
        supervise(program)
    assert len(program.queries) == 1, "it did not begin again"


def test_whoever_is_interrupted_stops_the_query() -> None:
    query = Query("a", 1, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        supervise(Program([query]))
    assert query.is_stopped


@pytest.mark.parametrize("failure", [None, BUG], ids=["in order", "with an error"])
def test_a_signal_stops_the_query_and_nothing_begins_again(failure: BaseException | None) -> None:
    query = Query("a", 2, failure)
    told, _ = supervise(Program([query, Query("b", 1, None)]), told_at=1)
    assert query.is_stopped
    assert told == [0, 1]


@pytest.mark.parametrize("error", [ConnectionResetError("of a metrics server"), BUG, ValueError()])
def test_an_error_of_whoever_is_told_of_progress_stops_the_query_whatever_its_class(
    error: Exception,
) -> None:
    def fail(progress: Progress) -> None:
        raise error

    query = Query("a", 3, None)
    program = Program([query, Query("b", 0, None)])
    with pytest.raises(type(error)), Stop() as stop:
        Supervisor(program, None, fail, stop, lambda seconds: None).run()  # type: ignore[arg-type]
    assert query.is_stopped
    assert len(program.queries) == 1, "it did not begin again"


def test_a_death_of_java_tells_how_many_the_pipeline_may_have() -> None:
    program = Program([ConnectionRefusedError("Java side is down")], most=3)
    with pytest.raises(DriverLostError) as caught:
        supervise(program)
    assert caught.value.max_restarts == 3


class Skipping(Query):
    """Does three micro-batches between two looks."""

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return super().recentProgress[: self.looks // 3 * 3]


def test_micro_batches_between_two_looks_are_told_too() -> None:
    assert supervise(Program([Skipping("a", 9, None)]))[0] == list(range(9))
