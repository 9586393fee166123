"""Warnings about clients that do not get in: few for each address, because they come as often as clients try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.events import EventLog
from ottla.model import Endpoint

logger = EventLog(__name__)

WINDOW_SECONDS: Final = 10.0
MAX_LINES: Final = 3
MAX_ADDRESSES: Final = 1000


class _Window:
    """What an address has caused since some moment."""

    __slots__ = ("began", "lines", "suppressed")

    def __init__(self, began: float, suppressed: int) -> None:
        self.began = began
        self.lines = 0
        self.suppressed = suppressed


class RefusalLog:
    """The warnings of a node; the next line of an address says how many were left out."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now  # in seconds
        self._windows: dict[str, _Window] = {}  # the oldest first

    def warn(self, event: str, text: str, peer: Endpoint, **fields: object) -> None:
        """Logs a refusal of a client; `text` names the field `peer` and others."""
        window = self._window_of(peer.host)
        if window.lines >= MAX_LINES:
            window.suppressed += 1
            return
        window.lines += 1
        suppressed, window.suppressed = window.suppressed, 0
        if suppressed:
            text += " (%(suppressed)d more from this address are not logged)"
        logger.warning(event, text, peer=str(peer), suppressed=suppressed, **fields)

    def _window_of(self, host: str) -> _Window:
        window = self._windows.get(host)
        now = self._now()
        if window is None or now - window.began >= WINDOW_SECONDS:
            self._windows.pop(host, None)
            while len(self._windows) >= MAX_ADDRESSES:
                del self._windows[next(iter(self._windows))]
            window = _Window(now, 0 if window is None else window.suppressed)
            self._windows[host] = window
        return window
