"""The log of the broker: events with a name, a sentence and fields."""

from __future__ import annotations

import logging
from typing import Any


class EventLog:
    """The logger of one module.

    The sentence refers to fields as `%(topic)s`. The names of events and fields are an interface: programs read them.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    @property
    def shows_debug(self) -> bool:
        """Whether `debug` events are logged."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, text: str, /, **fields: Any) -> None:
        """Log a detail that helps to find an error."""
        self._log(logging.DEBUG, event, text, fields)

    def info(self, event: str, text: str, /, **fields: Any) -> None:
        """Log something that happens in normal operation."""
        self._log(logging.INFO, event, text, fields)

    def warning(self, event: str, text: str, /, **fields: Any) -> None:
        """Log something that an operator should look at."""
        self._log(logging.WARNING, event, text, fields)

    def error(self, event: str, text: str, /, **fields: Any) -> None:
        """Log a failure."""
        self._log(logging.ERROR, event, text, fields)

    def bug(self, event: str, text: str, error: BaseException, /, **fields: Any) -> None:
        """Log an exception that should not be possible, with its traceback."""
        self._logger.error(text, *_arguments(fields), extra={"event": event}, exc_info=error)

    def _log(self, level: int, event: str, text: str, fields: dict[str, Any]) -> None:
        self._logger.log(level, text, *_arguments(fields), extra={"event": event})


def _arguments(fields: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    # logging takes an empty dict for a superfluous argument.
    return (fields,) if fields else ()
