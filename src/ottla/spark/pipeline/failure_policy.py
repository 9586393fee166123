"""What to do when a query fails: begin again, or stop and say why. Decisions without IO.

What went wrong in a Python process of Spark's arrives as the text of a traceback, so that the class of the
error is only in that text.
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
    """A pipeline has stopped because of an error that a restart would not mend."""


class PipelineTakenOverError(PipelineError):
    """Another instance of the pipeline runs now."""


class MicroBatchLostError(OttlaError):
    """A micro-batch failed for a reason that may pass."""


class DriverLostError(PipelineError):
    """Spark's Java is gone, and this process cannot have another: start a new one, if `max_restarts` allows it."""

    def __init__(self, reason: str, max_restarts: int | None = None) -> None:
        super().__init__(reason, max_restarts)
        self.reason = reason
        self.max_restarts = max_restarts

    def __str__(self) -> str:
        return self.reason


class NextStep(Enum):
    """What follows a failure."""

    RESTART = "what failed may work when it is tried again"
    STOP = "it would fail again"
    LEAVE = "another instance took over"
    NEW_DRIVER = "Spark's Java is gone, a new process has to begin"


# The last word of the class of an error, as tracebacks write it.
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
    # Of the store that has the checkpoint, as Spark's Java sees it.
    "ConnectException": NextStep.RESTART,
    "ConnectTimeoutException": NextStep.RESTART,
    "NoRouteToHostException": NextStep.RESTART,
    "SocketException": NextStep.RESTART,
    "SocketTimeoutException": NextStep.RESTART,
    "UnknownHostException": NextStep.RESTART,
    "AWSServiceThrottledException": NextStep.RESTART,
    "AWSStatus500Exception": NextStep.RESTART,
}
# A micro-batch comes to the driver, whose memory it must not fill.
_TOO_LARGE: Final = re.compile(
    r"\bbigger than (?:local result size limit )?spark\.driver\.maxResultSize"
)
# An error about several partitions or groups tells the codes of all.
_SEVERAL: Final = "PartialFailureError"
_CODE: Final = re.compile(r"\b([A-Z][A-Z_]+) \(-?\d+\)")
# What Spark says when a process or a machine is gone.
_LOST_PART: Final = re.compile(
    r"ExecutorLostFailure|Python worker exited unexpectedly|Python worker failed to connect back|"
    r"Could not get block|FetchFailed|SparkException: Job \d+ cancelled because SparkContext was shut down"
)
_LOST_DRIVER: Final = re.compile(
    r"Py4JNetworkError|Answer from Java side is empty|Java side is down|error while trying to connect to the Java"
)
# What Spark says when another driver writes to the same checkpoint.
_OTHER_DRIVER: Final = re.compile(
    r"\[CONCURRENT_STREAM_LOG_UPDATE[\].]|\[CONCURRENT_QUERY\]|[Mm]ultiple streaming queries are concurrently using"
)
# As Python, Java and Py4J write it.
_ERROR_LINE: Final = re.compile(
    r"^(?:: |Caused by: )?(?:[\w.$]+\.)?(\w+(?:Error|Exception)): ?(.*)$", re.MULTILINE
)


# What raise_error says, as the rows do that cannot be read.
_RAISED_BY_SQL: Final = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)*$", re.MULTILINE
)


@dataclass(frozen=True)
class Failure:
    """What is known of a failure."""

    next: NextStep
    reason: str
    """One line for people."""

    def at(self, place: str | None) -> Failure:
        """As it is, with the line of the user's code; what passes by itself needs none."""
        if place is None or place in self.reason or self.next is not NextStep.STOP:
            return self
        return replace(self, reason=f"{self.reason} ({place})")


JAVA_IS_GONE: Final = Failure(NextStep.NEW_DRIVER, "Spark's Java process is gone")


def judge_connection(error: ConnectionError) -> Failure:
    """What to do about a connection of this process that broke: that to Spark's Java, or one of the user's."""
    frames = traceback.extract_tb(error.__traceback__)
    if any(Path(frame.filename).parent.name == "py4j" for frame in frames):
        return JAVA_IS_GONE
    return judge(type(error).__name__, f"{type(error).__name__}: {error}")


def judge(kind: str, text: str) -> Failure:
    """What to do about an exception of this class with this text."""
    if _LOST_DRIVER.search(kind) or _LOST_DRIVER.search(text):
        return JAVA_IS_GONE
    lines = [(found[1], found[2]) for found in _ERROR_LINE.finditer(text)]
    known = [
        (_next_of(name, reason), reason)
        for name, reason in lines
        if name in BY_CLASS or name == _SEVERAL
    ]
    # An error of ours may have been caused by another one of ours: the one that was raised last says it best. What
    # another instance did outweighs all: its effects look like failures of the network too.
    for following, reason in known:
        if following is NextStep.LEAVE:
            return Failure(NextStep.LEAVE, reason)
    if _OTHER_DRIVER.search(text):
        return Failure(
            NextStep.LEAVE,
            "Another instance took over, or was there before: it writes to the checkpoint of this pipeline. Nothing is "
            "lost; run one instance of a pipeline.",
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
        return NextStep.STOP if code is not None and _is_for_people(code[1]) else BY_CLASS[name]
    codes = _CODE.findall(reason)
    may_pass = bool(codes) and all(
        code in ErrorCode.__members__ and ErrorCode[code].retriable for code in codes
    )
    return NextStep.RESTART if may_pass else NextStep.STOP


def _is_for_people(name: str) -> bool:
    """Whether only a person can mend it: permissions, records that a topic does not take, data that is damaged."""
    code = ErrorCode.__members__.get(name)
    return code is not None and (
        code.action is Action.FIX_REQUEST or code is ErrorCode.CORRUPT_MESSAGE
    )


def _reason(kind: str, text: str, lines: list[tuple[str, str]]) -> str:
    """The line that says most: that of the user's own error, in which Spark wraps its own."""
    if (raised := own_error(text)) is not None:
        return raised
    if (told := _RAISED_BY_SQL.search(text)) is not None:
        return told[1].strip()
    own = [each for each in lines if not OF_SPARK.fullmatch(each[0])]
    if own:
        return ": ".join(own[-1])
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{kind}: {first}" if first else kind


class Pauses:
    """How long to wait before the next start: longer each time, until something was done."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE_SECONDS

    def take(self) -> float:
        """The pause before the next start."""
        pause, self._next = self._next, min(self._next * 2, LONGEST_PAUSE_SECONDS)
        return pause

    def reset(self) -> None:
        """A micro-batch was done."""
        self._next = FIRST_PAUSE_SECONDS
