"""A catalog that several processes share; messages between them are late, and a seed says in what order they come."""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ottla.ports import CatalogConflictError, Follower, JsonValue, StorageError


class SharedCatalog:
    """Decides about commits, and tells every process of each change; messages to one process keep their order."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.entries: dict[str, JsonValue] = {}
        self.revision = 0
        self.history: list[Mapping[str, JsonValue]] = []
        self.conflict_count = 0
        self.is_full = False
        self._copies: list[CatalogCopy] = []
        # Processes that no message reaches now.
        self.held: set[CatalogCopy] = set()
        # Commits whose answer waits for processes that do not act by them yet.
        self._unanswered: list[tuple[int, set[CatalogCopy], Callable[[], None]]] = []

    def copy(self) -> CatalogCopy:
        """The catalog of a process that begins."""
        made = CatalogCopy(self, dict(self.entries), self.revision)
        self._copies.append(made)
        return made

    def commit(
        self, copy: CatalogCopy, changes: Mapping[str, JsonValue], expected: int, answer: Any
    ) -> None:
        if expected != self.revision:
            self.conflict_count += 1
            conflict = CatalogConflictError(f"at revision {self.revision}")
            copy.later(lambda: answer.done() or answer.set_exception(conflict))
            return
        if self.is_full:
            copy.later(lambda: answer.done() or answer.set_exception(StorageError("no room")))
            return
        stored = json.loads(json.dumps(dict(changes)))
        self.revision += 1
        revision = self.revision
        self.history.append(stored)
        _apply(self.entries, stored)
        for each in self._copies:
            each.later(lambda each=each: each.apply(revision, stored))  # type: ignore[misc]
        self._unanswered.append(
            (
                revision,
                set(self._copies),
                lambda: copy.later(lambda: answer.done() or answer.set_result(revision)),
            )
        )

    def applied(self, copy: CatalogCopy, revision: int) -> None:
        for made, waits_for, _ in self._unanswered:
            if made <= revision:
                waits_for.discard(copy)
        self._answer()

    def _answer(self) -> None:
        ready = [each for each in self._unanswered if not each[1]]
        self._unanswered = [each for each in self._unanswered if each[1]]
        for _, _, answer in ready:
            answer()

    def remove(self, copy: CatalogCopy) -> None:
        """A process has ended."""
        copy.messages.clear()
        copy.requests.clear()
        self._copies.remove(copy)
        for _, waits_for, _ in self._unanswered:
            waits_for.discard(copy)
        self._answer()

    def deliver(self) -> bool:
        """Delivers one of the messages that are under way; False if there is none."""
        waiting = [
            queue
            for copy in self._copies
            if copy not in self.held
            for queue in (copy.messages, copy.requests)
            if queue
        ]
        if not waiting:
            return False
        self._rng.choice(waiting).popleft()()
        return True

    async def settle(self, *answers: Any) -> list[Any]:
        """The answers, when every message has come."""
        futures = [
            asyncio.ensure_future(each) if asyncio.iscoroutine(each) else each for each in answers
        ]
        idle = 0
        while idle < 50:
            delivered = self._rng.random() < 0.7 and self.deliver()
            await asyncio.sleep(0)
            is_quiet = not any(
                copy.messages or copy.requests for copy in self._copies if copy not in self.held
            )
            idle = 0 if delivered or not is_quiet else idle + 1
        return [await each if isinstance(each, asyncio.Future) else each for each in futures]


class CatalogCopy:
    """Implements Catalog for one process."""

    def __init__(self, shared: SharedCatalog, entries: dict[str, JsonValue], revision: int) -> None:
        self._shared = shared
        self._entries = entries
        self._revision = revision
        self._follower: Follower | None = None
        self.messages: deque[Callable[[], object]] = deque()
        self.requests: deque[Callable[[], object]] = deque()

    @property
    def revision(self) -> int:
        return self._revision

    def entries(self) -> Mapping[str, JsonValue]:
        return MappingProxyType(self._entries)

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def commit(
        self, changes: Mapping[str, JsonValue], expected_revision: int
    ) -> asyncio.Future[int]:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.requests.append(lambda: self._shared.commit(self, changes, expected_revision, answer))
        return answer

    def later(self, message: Callable[[], object]) -> None:
        self.messages.append(message)

    def apply(self, revision: int, changes: Mapping[str, JsonValue]) -> None:
        assert revision == self._revision + 1
        _apply(self._entries, changes)
        self._revision = revision
        if self._follower is not None:
            self._follower(revision, changes)
        self.requests.append(lambda: self._shared.applied(self, revision))


def _apply(entries: dict[str, JsonValue], changes: Mapping[str, JsonValue]) -> None:
    for key, value in changes.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
