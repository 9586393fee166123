"""Commands that end by a signal, and clean up before."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from ottla.cli.exit_codes import INTERRUPTED, TERMINATED

_CODES: Final = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


class Terminated(KeyboardInterrupt):
    """SIGTERM, which `timeout` and supervisors send, ends a command as Ctrl-C does."""


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Within the block SIGTERM raises an exception, as SIGINT does."""

    def end(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_code_of(error: KeyboardInterrupt) -> int:
    """The exit code of a command that a signal ended."""
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


class StopRequest:
    """Remembers Ctrl-C or SIGTERM for a loop that checks for it; a second signal raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code for the signal that came; None if none came."""
        self._before = {number: signal.getsignal(number) for number in _CODES}

    def _remember(self, number: int, frame: object) -> None:
        if self.code is not None:
            raise KeyboardInterrupt
        self.code = _CODES[signal.Signals(number)]

    def __enter__(self) -> Self:
        for number in _CODES:
            signal.signal(number, self._remember)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
