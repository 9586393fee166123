"""Outcomes that many decisions have in common."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from ottla.errors import ErrorCode


class RecordError(NamedTuple):
    """A record that made its batch fail, by its place in the batch."""

    batch_index: int
    message: str


class Refused(NamedTuple):
    """A rule forbids the request: the error for the client, and a sentence where the error says too little."""

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()

    @property
    def text(self) -> str:
        """The sentence for the client."""
        return self.error.text if self.message is None else self.message


@final
class TakesLong:
    """Not decided: the work would hold the event loop for too long, and has to be done on a thread."""

    __slots__ = ()


TAKES_LONG: Final = TakesLong()


def error_of(outcome: Refused | None) -> ErrorCode:
    """The error code that a response has for the outcome of a check."""
    return ErrorCode.NONE if outcome is None else outcome.error
