"""An event loop that a synchronous call holds: noticed from another thread, with the place of the call."""

from __future__ import annotations

import asyncio
import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import CodeType, FrameType
from typing import Final

_LIBRARIES: Final = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OWN: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_MAX_FRAMES: Final = 40


@dataclass(frozen=True)
class BlockedLoop:
    """A loop that does not answer."""

    since: float
    place: str
    """File, line and function of the program, with the text of the line."""
    stack: tuple[str, ...]
    """The whole stack, the innermost call last."""
    codes: frozenset[CodeType]
    """The functions on the stack."""


class LoopProbe:
    """Asks a loop for a sign of life again and again; `poll` is called on another thread, now and then."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_answer: Callable[[], None],
        *,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`on_answer` is called on the loop, each time that it answers; the caller is on the loop's thread."""
        self._loop = loop
        self._on_answer = on_answer
        self._now = now
        self._thread_id = threading.get_ident()
        # The questions have numbers: the polling thread writes what it asked, the loop what it answered.
        self._asked = self._answered = 0
        self._asked_at = self._polled_at = now()

    def poll(self, blocked_seconds: float) -> BlockedLoop | None:
        """What holds the loop, if it has not answered for so long; asks it again otherwise."""
        polled_at, self._polled_at = self._polled_at, self._now()
        if self._answered == self._asked:
            self._ask()
        elif self._polled_at - polled_at >= blocked_seconds:
            # This thread was held up too, as when the whole process is stopped: that is not the loop's fault.
            self._asked_at = self._polled_at
        elif self._polled_at - self._asked_at >= blocked_seconds:
            frame = sys._current_frames().get(self._thread_id)
            return None if frame is None else _blocked_by(frame, self._asked_at)
        return None

    def _ask(self) -> None:
        self._asked += 1
        self._asked_at = self._polled_at
        try:
            self._loop.call_soon_threadsafe(self._answer, self._asked)
        except RuntimeError:  # the loop is closed: there is nothing more to watch
            self._answered = self._asked

    def _answer(self, number: int) -> None:
        self._answered = number
        self._on_answer()


def _blocked_by(innermost: FrameType, since: float) -> BlockedLoop:
    frames: list[FrameType] = []
    frame: FrameType | None = innermost
    while frame is not None and len(frames) < _MAX_FRAMES:
        frames.append(frame)
        frame = frame.f_back
    users = next((each for each in frames if _is_of_the_program(each)), innermost)
    return BlockedLoop(
        since=since,
        place=_place_of(users),
        stack=tuple(_place_of(each) for each in reversed(frames)),
        codes=frozenset(each.f_code for each in frames),
    )


def _is_of_the_program(frame: FrameType) -> bool:
    name = os.path.realpath(frame.f_code.co_filename)
    return not name.startswith((*_LIBRARIES, _OWN)) and not frame.f_code.co_filename.startswith("<")


def _place_of(frame: FrameType) -> str:
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
    text = f": {line}" if line else ""
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}{text}"
