"""The catalog as the supervisor has it: commits of workers, and who acts by which revision.

A commit is answered when every live worker acts by it, so that a client that was told of a change finds it in force at
every node. A worker that does not say so in time is not waited for: it hangs, and is killed later, or it is busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.broker.workers.messages import (
    Applied,
    CatalogCopy,
    Changed,
    Commit,
    Committed,
    Conflicted,
    Message,
    NotCommitted,
)
from ottla.ports import Catalog, CatalogConflictError, JsonValue, StorageError

APPLY_SECONDS: Final = 2.0

Send = Callable[[Message], None]


@dataclass
class _Unanswered:
    """A commit that some workers do not act by yet."""

    answer: Send  # of the process that has sent it, which may have ended
    number: int
    waits_for: set[int]
    deadline: asyncio.TimerHandle


class CatalogCommits:
    """The commits of all workers, in one order; `catalog` writes them at once."""

    def __init__(self, catalog: Catalog, apply_seconds: float = APPLY_SECONDS) -> None:
        self._catalog = catalog
        self._apply_seconds = apply_seconds
        self._sends: dict[int, Send] = {}
        self._live: set[int] = set()
        self._unanswered: dict[int, _Unanswered] = {}

    def add(self, node_id: int, send: Send) -> None:
        """A worker is started: it gets the catalog, and every change from now on."""
        self._sends[node_id] = send
        send(CatalogCopy(self._catalog.revision, dict(self._catalog.entries())))

    def serves(self, node_id: int) -> None:
        """A worker has clients: commits wait for it."""
        self._live.add(node_id)

    def remove(self, node_id: int) -> None:
        """A worker has ended: no commit waits for it, and its own get no answer."""
        self._sends.pop(node_id, None)
        self._live.discard(node_id)
        for revision in list(self._unanswered):
            self._note(revision, node_id)

    def commit(self, node_id: int, message: Commit) -> None:
        """Writes a worker's changes, tells all workers, and answers."""
        answer = self._sends[node_id]
        try:
            revision = self.write(message.changes, message.expected_revision)
        except CatalogConflictError:
            answer(Conflicted(message.number, self._catalog.revision))
            return
        except StorageError as error:
            answer(NotCommitted(message.number, str(error)))
            return
        deadline = asyncio.get_running_loop().call_later(
            self._apply_seconds, self._settle, revision
        )
        self._unanswered[revision] = _Unanswered(answer, message.number, set(self._live), deadline)
        self._settle_if_applied(revision)

    def write(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        """Writes changes and tells all workers; returns the new revision."""
        revision = self._catalog.commit(changes, expected_revision)
        assert isinstance(revision, int)
        for send in self._sends.values():
            send(Changed(revision, changes))
        return revision

    def applied(self, node_id: int, message: Applied) -> None:
        """A worker acts by a revision."""
        for revision in [each for each in self._unanswered if each <= message.revision]:
            self._note(revision, node_id)

    def close(self) -> None:
        """Answers nothing any more."""
        for each in self._unanswered.values():
            each.deadline.cancel()
        self._unanswered.clear()

    def _note(self, revision: int, node_id: int) -> None:
        self._unanswered[revision].waits_for.discard(node_id)
        self._settle_if_applied(revision)

    def _settle_if_applied(self, revision: int) -> None:
        if not self._unanswered[revision].waits_for:
            self._settle(revision)

    def _settle(self, revision: int) -> None:
        settled = self._unanswered.pop(revision)
        settled.deadline.cancel()
        settled.answer(Committed(settled.number, revision))
