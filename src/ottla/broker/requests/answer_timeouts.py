"""The times by which clients want answers: one timer of the loop for all requests of a node that wait."""

from __future__ import annotations

import asyncio
from typing import Protocol


class TimedAnswer(Protocol):
    """A request that waits for its answer."""

    def time_out(self) -> None: ...


class AnswerTimeouts:
    """Requests in the order of their deadlines, by their timeout, of which clients have few.

    Most requests are answered long before: they are added to a dict and removed from it.
    """

    def __init__(self) -> None:
        self._by_timeout_ms: dict[int, dict[TimedAnswer, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, answer: TimedAnswer, timeout_ms: int) -> None:
        """Has `time_out` called after this time, unless the answer is removed before."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(timeout_ms, 0) / 1000
        answers = self._by_timeout_ms.get(timeout_ms)
        if answers is None:
            answers = self._by_timeout_ms[timeout_ms] = {}
        answers[answer] = deadline
        if self._timer is None or deadline < self._timer.when():
            self._set_timer(loop, deadline)

    def remove(self, answer: TimedAnswer, timeout_ms: int) -> None:
        answers = self._by_timeout_ms.get(timeout_ms)
        if answers is not None and answers.pop(answer, None) is not None and not answers:
            # The timer stays: a request that waits for a moment only, and then another one, need no new one.
            del self._by_timeout_ms[timeout_ms]

    def _set_timer(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(deadline, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [
            (answer, timeout_ms)
            for timeout_ms, answers in self._by_timeout_ms.items()
            for answer in _due(answers, now)
        ]
        for answer, timeout_ms in due:
            self.remove(answer, timeout_ms)
            answer.time_out()
        deadlines = [next(iter(answers.values())) for answers in self._by_timeout_ms.values()]
        if deadlines:
            self._set_timer(loop, min(deadlines))


def _due(answers: dict[TimedAnswer, float], now: float) -> list[TimedAnswer]:
    found = []
    for answer, deadline in answers.items():
        if deadline > now:
            break
        found.append(answer)
    return found
