"""Progress: a line that is updated in place on a terminal, or a new line every few seconds elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Final, TextIO

_INTERVAL_SECONDS: Final = 5.0
_FULL, _EMPTY = "█", "░"


class Terminal:
    """Writes to stderr, or to the given stream."""

    def __init__(
        self, stream: TextIO | None = None, interval_seconds: float = _INTERVAL_SECONDS
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._interval_seconds = interval_seconds
        self._changing = False
        self._last = 0.0

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def show(self, text: str) -> None:
        """Print a line that the next one replaces."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + text[:width])
            self._stream.flush()
            self._changing = True
            return
        now = time.monotonic()
        if not self._last or now - self._last >= self._interval_seconds:
            self._last = now
            print(text, file=self._stream, flush=True)

    def done(self) -> None:
        """Remove the replaceable line."""
        self._clear()
        self._last = 0.0

    def _clear(self) -> None:
        if self._changing:
            self._stream.write("\r\x1b[K")
            self._changing = False


def bar(done: int, total: int, width: int = 24) -> str:
    """A progress bar."""
    filled = min(width, done * width // total) if total else width
    return _FULL * filled + _EMPTY * (width - filled)
