"""The catalog as the supervisor has it: commits of workers, and who acts by which revision.

A commit is answered when every live worker acts by it, so that a client that was told of a change finds it in force at
every node. A worker that does not say so in time is not waited for: it hangs, and is killed later, or it is busy. Later
commits wait for it only a moment until it says something: it handles no request by a catalog that is older than that
(`WorkerChannel.catch_up`), so that it acts by the change before it serves anybody who was told of it.
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
# For those that had that time before: more than FRESH_SECONDS of `worker_channel.py`.
HANGING_APPLY_SECONDS: Final = 0.25

Send = Callable[[Message], None]


@dataclass
class _Wait:
    """For the workers that do not act by a revision yet."""

    revision: int
    done: asyncio.Future[None]
    workers: set[int]


class CatalogCommits:
    """The commits of all workers, in one order; `catalog` writes them at once."""

    def __init__(self, catalog: Catalog, apply_seconds: float = APPLY_SECONDS) -> None:
        self._catalog = catalog
        self._apply_seconds = apply_seconds
        self._sends: dict[int, Send] = {}
        self._live: set[int] = set()
        # The revisions by which workers act.
        self._applied: dict[int, int] = {}
        self._waits: list[_Wait] = []
        # Workers that did not act by a revision in time, and have said nothing since.
        self._given_up: set[int] = set()

    def add(self, node_id: int, send: Send) -> None:
        """A worker is started: it gets the catalog, and every change from now on."""
        self._sends[node_id] = send
        self._applied[node_id] = self._catalog.revision
        send(CatalogCopy(self._catalog.revision, dict(self._catalog.entries())))

    def serves(self, node_id: int) -> None:
        """A worker has clients: commits wait for it."""
        self._live.add(node_id)

    def remove(self, node_id: int) -> None:
        """A worker has ended: no commit waits for it."""
        self._sends.pop(node_id, None)
        self._applied.pop(node_id, None)
        self._live.discard(node_id)
        self._given_up.discard(node_id)
        self._end_waits()

    def commit(self, node_id: int, message: Commit) -> None:
        """Writes a worker's changes, tells all workers, and answers."""
        # Of the process that has sent it: one that is started later knows nothing of it.
        answer = self._sends[node_id]
        try:
            revision = self.write(message.changes, message.expected_revision)
        except CatalogConflictError:
            answer(Conflicted(message.number, self._catalog.revision))
        except StorageError as error:
            answer(NotCommitted(message.number, str(error)))
        else:
            self.applied_by_all().add_done_callback(
                lambda done: (
                    None if done.cancelled() else answer(Committed(message.number, revision))
                )
            )

    def write(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        """Writes changes and tells all workers; returns the new revision."""
        revision = self._catalog.commit(changes, expected_revision)
        assert isinstance(revision, int)
        for send in self._sends.values():
            send(Changed(revision, changes))
        return revision

    def applied(self, node_id: int, message: Applied) -> None:
        """A worker acts by a revision."""
        self._applied[node_id] = message.revision
        self._given_up.discard(node_id)
        self._end_waits()

    def applied_by_all(self) -> asyncio.Future[None]:
        """Done when every live worker acts by the newest revision, or has had its time."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        wait = _Wait(self._catalog.revision, done, set(self._live))
        self._waits.append(wait)
        deadline = loop.call_later(self._apply_seconds, self._give_up, wait)
        if self._given_up:
            hanging_deadline = loop.call_later(
                min(HANGING_APPLY_SECONDS, self._apply_seconds), self._skip_hanging, wait
            )
            done.add_done_callback(lambda _: hanging_deadline.cancel())
        done.add_done_callback(lambda _: deadline.cancel())
        self._end_waits()
        return done

    def close(self) -> None:
        """Answers nothing any more."""
        for wait in self._waits:
            wait.done.cancel()
        self._waits.clear()

    def _give_up(self, wait: _Wait) -> None:
        """Workers that have had their time are not waited for."""
        if not wait.done.done():
            self._given_up |= wait.workers
        self._settle(wait.done)

    def _skip_hanging(self, wait: _Wait) -> None:
        wait.workers -= self._given_up
        self._end_waits()

    def _settle(self, done: asyncio.Future[None]) -> None:
        if not done.done():
            done.set_result(None)
        self._waits = [wait for wait in self._waits if wait.done is not done]

    def _end_waits(self) -> None:
        for wait in list(self._waits):
            wait.workers = {
                each
                for each in wait.workers
                if each in self._live and self._applied[each] < wait.revision
            }
            if not wait.workers:
                self._settle(wait.done)
