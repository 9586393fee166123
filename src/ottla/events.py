"""What the broker tells whoever reads its log: events that have a name, a sentence and fields."""

from __future__ import annotations

import logging
from typing import Any


class EventLog:
    """The log of one module.

    The sentence names its fields as `%(topic)s`. Names of events and fields stay what they are: programs read them.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    @property
    def shows_debug(self) -> bool:
        """Whether anybody sees what is told by `debug`."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, text: str, /, **fields: Any) -> None:
        """What only helps to find an error."""
        self._tell(logging.DEBUG, event, text, fields)

    def info(self, event: str, text: str, /, **fields: Any) -> None:
        """What happens in the course of things."""
        self._tell(logging.INFO, event, text, fields)

    def warning(self, event: str, text: str, /, **fields: Any) -> None:
        """What somebody should look at."""
        self._tell(logging.WARNING, event, text, fields)

    def error(self, event: str, text: str, /, **fields: Any) -> None:
        """What does not work."""
        self._tell(logging.ERROR, event, text, fields)

    def bug(self, event: str, text: str, error: BaseException, /, **fields: Any) -> None:
        """What cannot happen; it is told with where it happened."""
        self._logger.error(text, *_arguments(fields), extra={"event": event}, exc_info=error)

    def _tell(self, level: int, event: str, text: str, fields: dict[str, Any]) -> None:
        self._logger.log(level, text, *_arguments(fields), extra={"event": event})


def _arguments(fields: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    # An empty dict would not stand for itself, but for an argument that the text does not use.
    return (fields,) if fields else ()
