"""Many members that join and leave at random."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.groups.history import History
from tests.groups.raw_member import RawMembership

LIFE_SECONDS = (0.5, 6.0)
ABSENCE_SECONDS = (0.1, 1.5)
JOIN_SECONDS = 60.0


# A membership with a name, whose story goes into a history.
NewMember = Callable[[str, History, random.Random], RawMembership]


class Swarm:
    """So many raw members, each a thread that comes and goes until it is told to stay."""

    def __init__(
        self,
        new_member: NewMember,
        size: int,
        history: History,
        rng: random.Random,
    ) -> None:
        self.broken: list[str] = []
        self.history = history
        self.names = [f"raw{number}" for number in range(size)]
        self._new_member = new_member
        self._settling = threading.Event()
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(name, random.Random(rng.random())))
            for name in self.names
        ]

    def _run(self, name: str, rng: random.Random) -> None:
        try:
            while not self._end.is_set():
                self._settling.wait(rng.uniform(*ABSENCE_SECONDS))
                member = self._new_member(name, self.history, rng)
                try:
                    # Told to settle, a member leaves at the end only.
                    member.stay(self._settling, time.monotonic() + rng.uniform(*LIFE_SECONDS))
                    if self._settling.is_set():
                        member.stay(self._end, float("inf"))
                    member.leave()
                finally:
                    member.close()
        except Exception as error:
            self.broken.append(f"{name}: {error!r}")

    def settle(self) -> None:
        """Nobody leaves any more; who is away comes back."""
        self._settling.set()

    def end(self) -> None:
        self._settling.set()
        self._end.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
            assert not thread.is_alive(), "a member hangs"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
