"""The exceptions that Ottla raises; `exception_for` makes one from an error code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ottla.error_codes import Action, ErrorCode

__all__ = [
    "AbortableError",
    "Action",
    "CommitFailedError",
    "ConfigError",
    "DeserializationError",
    "ErrorCode",
    "FatalError",
    "IllegalStateError",
    "KafkaError",
    "LogTruncationError",
    "NoOffsetError",
    "OffsetOutOfRangeError",
    "OttlaError",
    "PartialFailureError",
    "RetriableError",
    "SerializationError",
    "TimedOutError",
    "TlsError",
    "WakeupError",
    "exception_for",
]


class OttlaError(Exception):
    """The base class of all exceptions that Ottla raises on purpose."""


class ConfigError(OttlaError, ValueError):
    """An option is unknown, not valid or in conflict; the text says what to change."""


class IllegalStateError(OttlaError, RuntimeError):
    """A call came out of order, such as sending before a transaction has begun."""


class WakeupError(OttlaError):
    """Another thread called `wakeup` while this one was waiting in the consumer."""


class SerializationError(OttlaError):
    """A key or value could not be turned into bytes."""


class DeserializationError(SerializationError):
    """The bytes of a key or value could not be read; seek past `offset` to skip the record."""

    def __init__(
        self,
        message: str,
        partition: tuple[str, int] | None = None,
        offset: int | None = None,
        raw: bytes | None = None,
    ) -> None:
        self.message = message
        self.partition = partition
        self.offset = offset
        self.raw = raw
        super().__init__(message, partition, offset, raw)

    def __str__(self) -> str:
        if self.partition is None:
            return self.message
        return f"{self.message} [partition={_partition_text(self.partition)}, offset={self.offset}]"


class KafkaError(OttlaError):
    """A broker answered with an error code; `context` tells the API, partition or broker."""

    def __init__(
        self, code: int, message: str | None = None, context: Mapping[str, object] | None = None
    ) -> None:
        self.code = ErrorCode(code)
        self.message = message or self.code.text
        self.context = dict(context or {})
        # The three arguments as they stand, so that the exception survives pickling.
        super().__init__(int(self.code), self.message, self.context)

    @property
    def name(self) -> str:
        """Kafka's name of the code."""
        return self.code.name

    @property
    def action(self) -> Action:
        """What to do about it."""
        return self.code.action

    def __str__(self) -> str:
        return f"{self.name} ({int(self.code)}): {self.message}{self._context_text()}"

    def _context_text(self) -> str:
        pairs = ", ".join(f"{key}={value}" for key, value in self.context.items())
        return f" [{pairs}]" if pairs else ""


class RetriableError(KafkaError):
    """The same call may succeed later."""


class AbortableError(KafkaError):
    """The operation (or the transaction it belongs to) failed; the client stays usable."""


class FatalError(KafkaError):
    """The client that raised this cannot continue; close it."""


class TlsError(FatalError):
    """The TLS handshake failed: a certificate is not trusted, or no protocol version or cipher fits both."""

    def __str__(self) -> str:
        # Kafka has no code for TLS errors; `code` is that of a failed authentication.
        return f"TLS failed: {self.message}{self._context_text()}"


class TimedOutError(RetriableError, TimeoutError):
    """The call did not finish within its timeout; `except TimeoutError` catches it too."""

    def __init__(
        self,
        code: int = ErrorCode.REQUEST_TIMED_OUT,
        message: str | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code, message, context)
        # OSError takes the first argument for an errno and the third for a file's name.
        self.errno = self.strerror = self.filename = None
        self.args = (int(self.code), self.message, self.context)


class CommitFailedError(AbortableError):
    """The offsets were not committed: the group has assigned the partitions to other members."""


class NoOffsetError(AbortableError):
    """Partitions have no position and no committed offset, and auto.offset.reset is none."""

    def __init__(self, partitions: Iterable[tuple[str, int]], message: str | None = None) -> None:
        self.partitions = tuple(partitions)
        names = ", ".join(_partition_text(partition) for partition in self.partitions)
        reason = message or (
            f"There is no offset to start from for {names}: "
            "seek, or set auto.offset.reset to earliest or latest."
        )
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, reason, {"api": "OffsetFetch"})
        self.args = (self.partitions, reason)


class OffsetOutOfRangeError(AbortableError):
    """Positions are outside the range of their logs, and auto.offset.reset is none."""

    summary: ClassVar[str] = "The positions are out of range"
    api: ClassVar[str] = "Fetch"

    def __init__(self, offsets: Mapping[tuple[str, int], int], message: str | None = None) -> None:
        self.offsets = dict(offsets)
        names = ", ".join(f"{_partition_text(p)} at {offset}" for p, offset in offsets.items())
        advice = "Seek, or set auto.offset.reset to earliest or latest."
        reason = message or f"{self.summary}: {names}. {advice}"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, reason, {"api": self.api})
        self.args = (self.offsets, reason)


class LogTruncationError(OffsetOutOfRangeError):
    """Records that the consumer has read were lost in a change of leader (KIP-320).

    `diverging_offsets` tells up to where the old log and the new one agree.
    """

    summary = "The log was truncated below the positions"
    api = "OffsetForLeaderEpoch"

    def __init__(
        self,
        offsets: Mapping[tuple[str, int], int],
        diverging_offsets: Mapping[tuple[str, int], int],
        message: str | None = None,
    ) -> None:
        super().__init__(offsets, message)
        self.diverging_offsets = dict(diverging_offsets)
        self.args = (self.offsets, self.diverging_offsets, self.message)


class PartialFailureError(KafkaError):
    """Some items of a call failed: `errors` has them by item, `results` has those that succeeded.

    A call with a single item raises the error of that item instead. The code is that of the first error.
    """

    def __init__(
        self, results: Mapping[Any, Any], errors: Mapping[Any, KafkaError], of: str = "calls"
    ) -> None:
        self.results = dict(results)
        self.errors = dict(errors)
        first = next(iter(self.errors.values()))
        shown = [f"{item}: {error}" for item, error in self.errors.items()][:5]
        more = len(self.errors) - len(shown)
        total = len(self.results) + len(self.errors)
        reason = f"{len(self.errors)} of {total} {of} failed: " + "; ".join(shown)
        super().__init__(first.code, reason + (f"; and {more} more" if more else ""))
        self.args = (self.results, self.errors, of)

    def __str__(self) -> str:
        return self.message


def _partition_text(partition: tuple[str, int]) -> str:
    return f"{partition[0]}-{partition[1]}"


_EXCEPTIONS: Mapping[Action, type[KafkaError]] = {
    Action.NONE: KafkaError,
    Action.RETRY: RetriableError,
    Action.REFRESH_METADATA: RetriableError,
    Action.REJOIN: AbortableError,
    Action.ABORT: AbortableError,
    Action.FIX_REQUEST: AbortableError,
    Action.FATAL: FatalError,
}


def exception_for(code: int, message: str | None = None, **context: object) -> KafkaError:
    """The exception for `code`; its class follows from what the caller should do about it."""
    if code == ErrorCode.REQUEST_TIMED_OUT:
        return TimedOutError(code, message, context)
    return _EXCEPTIONS[ErrorCode(code).action](code, message, context)
