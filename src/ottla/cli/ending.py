"""Commands that end by a signal, and put things right before."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.cli.failing import INTERRUPTED

TERMINATED: Final = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM, which `timeout` and supervisors send, ends a command as Ctrl-C does."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within, SIGTERM raises."""

    def end(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def code_of(error: KeyboardInterrupt) -> int:
    """The exit code of a command that a signal ended."""
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
