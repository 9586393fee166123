"""What an app raises."""

from __future__ import annotations

from ottla.errors import OttlaError


class UnreadableRecordError(OttlaError):
    """A record could not be turned into what the handler's parameters ask for; `index` is its place in the batch."""

    def __init__(self, message: str, index: int = 0) -> None:
        super().__init__(message)
        self.index = index


class BatchItemError(OttlaError):
    """Raised by a batch handler: the record at `index` failed; the batch runs again without it."""

    def __init__(self, index: int, cause: BaseException | str) -> None:
        super().__init__(f"record {index} of the batch failed: {cause}")
        self.index = index
        if isinstance(cause, BaseException):
            self.__cause__ = cause


class HandlerTimeoutError(OttlaError):
    """A handler ran longer than its `handler_timeout`."""


class ResultError(OttlaError):
    """A handler returned something else than it declares; the record counts as failed."""


class StartError(OttlaError):
    """An app cannot start: no broker answers, or a topic is missing."""


class HandlerCancelledError(OttlaError):
    """A handler ended with a cancellation that did not come from the listener."""
