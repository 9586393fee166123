"""Warnings about clients that do not get in: few for each address and reason, since clients try again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.events import EventLog
from ottla.model import Endpoint

logger = EventLog(__name__)

WINDOW_SECONDS: Final = 10.0
MAX_LINES: Final = 3
MAX_WINDOWS: Final = 1000


class _Window:
    """What an address has caused, for one reason, since some moment."""

    __slots__ = ("began", "lines", "suppressed")

    def __init__(self, began: float, suppressed: int) -> None:
        self.began = began
        self.lines = 0
        self.suppressed = suppressed


class RefusalLog:
    """The warnings of a node; the next line of an address says how many were left out."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now  # in seconds
        self._windows: dict[tuple[str, str], _Window] = {}  # the oldest first

    def forget(self) -> None:
        """Logs whatever comes next."""
        self._windows.clear()

    def warn(self, event: str, text: str, peer: Endpoint, *, reason: str, **fields: str) -> None:
        """Logs a refusal of a client; `text` names the fields `peer`, `reason` and others."""
        window = self._window_of((peer.host, reason))
        if window.lines >= MAX_LINES:
            window.suppressed += 1
            return
        window.lines += 1
        suppressed, window.suppressed = window.suppressed, 0
        if suppressed:
            text += " (%(suppressed)d more from this address are not logged)"
        logger.warning(event, text, peer=str(peer), reason=reason, suppressed=suppressed, **fields)

    def _window_of(self, key: tuple[str, str]) -> _Window:
        window = self._windows.get(key)
        now = self._now()
        if window is None or now - window.began >= WINDOW_SECONDS:
            self._windows.pop(key, None)
            while len(self._windows) >= MAX_WINDOWS:
                del self._windows[next(iter(self._windows))]
            window = _Window(now, 0 if window is None else window.suppressed)
            self._windows[key] = window
        return window
