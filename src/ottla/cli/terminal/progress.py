"""Progress on the terminal: a line that changes in place, or now and then a new one where nobody watches."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Final, TextIO

_SELDOM_SECONDS: Final = 5.0
_FULL, _EMPTY = "█", "░"


class Terminal:
    """Writes to stderr, or to what it is given."""

    def __init__(
        self, stream: TextIO | None = None, seldom_seconds: float = _SELDOM_SECONDS
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_watched = self._stream.isatty()
        self._seldom_seconds = seldom_seconds
        self._changing = False
        self._last = 0.0

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def show(self, text: str) -> None:
        """A line that the next one replaces."""
        if self._is_watched:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + text[:width])
            self._stream.flush()
            self._changing = True
            return
        now = time.monotonic()
        if not self._last or now - self._last >= self._seldom_seconds:
            self._last = now
            print(text, file=self._stream, flush=True)

    def done(self) -> None:
        """The line that changed is not needed any more."""
        self._clear()
        self._last = 0.0

    def _clear(self) -> None:
        if self._changing:
            self._stream.write("\r\x1b[K")
            self._changing = False


def bar(done: int, all_of_it: int, width: int = 24) -> str:
    """How much of it is done, as a picture."""
    filled = min(width, done * width // all_of_it) if all_of_it else width
    return _FULL * filled + _EMPTY * (width - filled)
