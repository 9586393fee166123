"""What becomes of a record whose handler failed."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.app.declarations.listener_spec import ErrorAction, ListenerSpec
from ottla.app.errors import BatchItemError, UnreadableRecordError
from ottla.schemas.errors import RegistryUnavailableError

FIRST_BACKOFF_MS: Final = 1_000
MAX_BACKOFF_MS: Final = 60_000
"""The pauses between attempts of a record that nothing says where to put: it stays, and is tried again."""


class RetryInPlace(NamedTuple):
    """Try again after a delay; until then the record stays unfinished."""

    delay_ms: int
    is_planned: bool
    """Whether the listener's retries say so; otherwise the record has nowhere to go, which is a stall."""


class Hop(NamedTuple):
    """Put the record into the retry topic of the attempt that failed, to wait there."""

    delay_ms: int


class BuryRecord(NamedTuple):
    """Put the record into the dead-letter topic."""


class StopListener(NamedTuple):
    """Stop the listener in front of the record."""


class IgnoreRecord(NamedTuple):
    """Finish the record as if it had succeeded."""


Decision = RetryInPlace | Hop | BuryRecord | StopListener | IgnoreRecord


def decide(spec: ListenerSpec, error: BaseException, failed_count: int) -> Decision:
    """What becomes of a record after so many failed attempts, the last one with this error."""
    action = _ruled(spec, error)
    if action is None and _is(error, RegistryUnavailableError):
        # The record is all right: an outage of the registry must not make dead letters of a whole topic.
        return RetryInPlace(backoff_ms(failed_count), is_planned=False)
    if action is None:
        # Bytes that cannot be read today cannot be read tomorrow.
        is_unreadable = _is(error, UnreadableRecordError)
        action = ErrorAction.DEAD_LETTER if is_unreadable else ErrorAction.RETRY
    if action is ErrorAction.STOP:
        return StopListener()
    if action is ErrorAction.IGNORE:
        return IgnoreRecord()
    retry = spec.retry
    if action is ErrorAction.RETRY and retry is not None and failed_count < retry.max_attempts:
        delay_ms = round(retry.delays_seconds[failed_count - 1] * 1000)
        return RetryInPlace(delay_ms, is_planned=True) if retry.keep_order else Hop(delay_ms)
    if spec.has_dead_letters:
        return BuryRecord()
    # Nothing says where to put the record, and it is never skipped without being told to.
    return RetryInPlace(backoff_ms(failed_count), is_planned=False)


def backoff_ms(failed_count: int) -> int:
    """The pause after so many failed attempts."""
    return min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS << min(failed_count - 1, 16))


def _ruled(spec: ListenerSpec, error: BaseException) -> ErrorAction | None:
    """What the listener's `errors` say."""
    return next((rule.action for rule in spec.errors if _is(error, rule.error)), None)


def _is(error: BaseException, wanted: type[BaseException]) -> bool:
    """Whether an error is of a class, or that of the one record of a batch that failed."""
    cause = error.__cause__ if isinstance(error, BatchItemError) else None
    return isinstance(error, wanted) or isinstance(cause, wanted)
