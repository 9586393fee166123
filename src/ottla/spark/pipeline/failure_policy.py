"""Decides how a pipeline goes on when a query fails: restart, or stop with an error. No IO.

An error of one of Spark's Python processes arrives as the text of a traceback, so its class is only in that text.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from ottla.errors import Action, ErrorCode, OttlaError
from ottla.spark.pipeline.user_errors import OF_SPARK, own_error

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0


class PipelineError(OttlaError):
    """A pipeline has stopped because of an error that a restart would not fix."""


class PipelineTakenOverError(PipelineError):
    """Another instance of the pipeline has taken over."""


class MicroBatchLostError(OttlaError):
    """A micro-batch failed for a transient reason."""


class DriverLostError(PipelineError):
    """Spark's Java process is gone, and this process cannot start another: a new process has to, if `max_restarts`
    allows."""

    def __init__(self, reason: str, max_restarts: int | None = None) -> None:
        super().__init__(reason, max_restarts)
        self.reason = reason
        self.max_restarts = max_restarts

    def __str__(self) -> str:
        return self.reason


class NextStep(Enum):
    """The reaction to a failure."""

    RESTART = "the failure is transient"
    STOP = "it would fail again"
    LEAVE = "another instance took over"
    NEW_DRIVER = "Spark's Java process is gone, a new process has to start"


# By the name of the error's class, without its module.
BY_CLASS: Final = {
    "TakenOverError": NextStep.LEAVE,
    "ProgressError": NextStep.STOP,
    "DataLossError": NextStep.STOP,
    "OffsetFormatError": NextStep.STOP,
    "ConfigError": NextStep.STOP,
    "FatalError": NextStep.STOP,
    "TlsError": NextStep.STOP,
    "RetriableError": NextStep.RESTART,
    "TimedOutError": NextStep.RESTART,
    "AbortableError": NextStep.RESTART,
    "MicroBatchLostError": NextStep.RESTART,
    "ConnectionResetError": NextStep.RESTART,
    "ConnectionRefusedError": NextStep.RESTART,
    "BrokenPipeError": NextStep.RESTART,
    "StoreError": NextStep.RESTART,
    # Errors of the checkpoint's store in Spark's Java.
    "ConnectException": NextStep.RESTART,
    "ConnectTimeoutException": NextStep.RESTART,
    "NoRouteToHostException": NextStep.RESTART,
    "SocketException": NextStep.RESTART,
    "SocketTimeoutException": NextStep.RESTART,
    "UnknownHostException": NextStep.RESTART,
    "AWSServiceThrottledException": NextStep.RESTART,
    "AWSStatus500Exception": NextStep.RESTART,
}
# A micro-batch is collected at the driver, within this limit.
_TOO_LARGE: Final = re.compile(
    r"\bbigger than (?:local result size limit )?spark\.driver\.maxResultSize"
)
# An error about several partitions or groups has the codes of all of them.
_SEVERAL: Final = "PartialFailureError"
_CODE: Final = re.compile(r"\b([A-Z][A-Z_]+) \(-?\d+\)")
# Spark's messages about a lost process or machine.
_LOST_PART: Final = re.compile(
    r"ExecutorLostFailure|Python worker exited unexpectedly|Python worker failed to connect back|"
    r"Could not get block|FetchFailed|SparkException: Job \d+ cancelled because SparkContext was shut down"
)
_LOST_DRIVER: Final = re.compile(
    r"Py4JNetworkError|Answer from Java side is empty|Java side is down|error while trying to connect to the Java"
)
# Spark's messages about another driver that writes to the same checkpoint.
_OTHER_DRIVER: Final = re.compile(
    r"\[CONCURRENT_STREAM_LOG_UPDATE[\].]|\[CONCURRENT_QUERY\]|[Mm]ultiple streaming queries are concurrently using"
)
# The last line of an error as Python, Java and Py4J write it.
_ERROR_LINE: Final = re.compile(
    r"^(?:: |Caused by: )?(?:[\w.$]+\.)?(\w+(?:Error|Exception)): ?(.*)$", re.MULTILINE
)


# The message of raise_error, which `output_rows` uses for records that cannot be parsed.
_RAISED_BY_SQL: Final = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)*$", re.MULTILINE
)


@dataclass(frozen=True)
class Failure:
    """A failure of a query."""

    next: NextStep
    reason: str
    """One line for the user."""

    def at(self, place: str | None) -> Failure:
        """With the line of the user's code in the reason, unless the failure is transient."""
        if place is None or place in self.reason or self.next is not NextStep.STOP:
            return self
        return replace(self, reason=f"{self.reason} ({place})")


JAVA_IS_GONE: Final = Failure(NextStep.NEW_DRIVER, "Spark's Java process is gone")


def judge_connection(error: ConnectionError) -> Failure:
    """The reaction to a broken connection of this process: the one to Spark's Java, or one of the user's."""
    frames = traceback.extract_tb(error.__traceback__)
    if any(Path(frame.filename).parent.name == "py4j" for frame in frames):
        return JAVA_IS_GONE
    return judge(type(error).__name__, f"{type(error).__name__}: {error}")


def judge(kind: str, text: str) -> Failure:
    """The reaction to an exception of this class with this text."""
    if _LOST_DRIVER.search(kind) or _LOST_DRIVER.search(text):
        return JAVA_IS_GONE
    lines = [(found[1], found[2]) for found in _ERROR_LINE.finditer(text)]
    known = [
        (_next_of(name, reason), reason)
        for name, reason in lines
        if name in BY_CLASS or name == _SEVERAL
    ]
    # Of our errors that caused each other, the last one is the most precise. A takeover by another instance outweighs
    # all: its effects look like network failures too.
    for following, reason in known:
        if following is NextStep.LEAVE:
            return Failure(NextStep.LEAVE, reason)
    if _OTHER_DRIVER.search(text):
        return Failure(
            NextStep.LEAVE,
            "Another instance took over, or was running before: it writes to the checkpoint of this pipeline. Nothing "
            "is lost; run one instance of a pipeline.",
        )
    if known:
        return Failure(*known[-1])
    if _TOO_LARGE.search(text):
        return Failure(
            NextStep.STOP,
            "a micro-batch is larger than spark.driver.maxResultSize allows. It is planned already, so raise that "
            "once, as in --conf spark.driver.maxResultSize=4g, and then set the source's maxOffsetsPerTrigger",
        )
    if (lost := _LOST_PART.search(text)) is not None:
        return Failure(NextStep.RESTART, f"a part of Spark is gone: {lost[0]}")
    return Failure(NextStep.STOP, _reason(kind, text, lines))


def _next_of(name: str, reason: str) -> NextStep:
    if name != _SEVERAL:
        code = _CODE.match(reason)
        return NextStep.STOP if code is not None and _needs_the_user(code[1]) else BY_CLASS[name]
    codes = _CODE.findall(reason)
    may_pass = bool(codes) and all(
        code in ErrorCode.__members__ and ErrorCode[code].retriable for code in codes
    )
    return NextStep.RESTART if may_pass else NextStep.STOP


def _needs_the_user(name: str) -> bool:
    """Whether only the user can fix it: permissions, records that a topic refuses, corrupt data."""
    code = ErrorCode.__members__.get(name)
    return code is not None and (
        code.action is Action.FIX_REQUEST or code is ErrorCode.CORRUPT_MESSAGE
    )


def _reason(kind: str, text: str, lines: list[tuple[str, str]]) -> str:
    """The most informative line: the user's own error, around which Spark wraps its own."""
    if (raised := own_error(text)) is not None:
        return raised
    if (raised_by_sql := _RAISED_BY_SQL.search(text)) is not None:
        return raised_by_sql[1].strip()
    own = [each for each in lines if not OF_SPARK.fullmatch(each[0])]
    if own:
        return ": ".join(own[-1])
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{kind}: {first}" if first else kind


class Pauses:
    """How long to wait before the next restart: doubled each time, until a micro-batch succeeds."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE_SECONDS

    def take(self) -> float:
        """The pause before the next restart, in seconds."""
        pause, self._next = self._next, min(self._next * 2, LONGEST_PAUSE_SECONDS)
        return pause

    def reset(self) -> None:
        """A micro-batch succeeded."""
        self._next = FIRST_PAUSE_SECONDS
