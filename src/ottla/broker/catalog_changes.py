"""Changes of the catalog: each is decided by the catalog's state, and decided again if another node was quicker.

A catalog of this process commits at once, so that a change is made within the call. One that other processes have too
answers later. Then the changes of this process wait for each other, and a conflict can only come from another one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.broker.requests.gather_responses import NowOrLater
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.ports import Catalog, CatalogConflictError, StorageError

T = TypeVar("T")

# Each conflict is a change that another node has made: so many in a row are none of a crowd of nodes.
MAX_DECISIONS: Final = 100


class Decision(NamedTuple, Generic[T]):
    """Changes of the catalog, and the outcome that they have once they are committed; without changes it is there."""

    changes: Changes
    outcome: T


# Looks at the catalog as it is now. It may be called several times: only the last decision counts.
Decide: TypeAlias = Callable[[], Decision[T]]


class _Wanted:
    """A change that has to wait."""

    def __init__(self, decide: Decide[Any]) -> None:
        self.decide = decide
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.decisions = 0


class CatalogChanges:
    """The changes that this process makes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # The first is being committed.
        self._queue: deque[_Wanted] = deque()

    def make(self, decide: Decide[T]) -> NowOrLater[T | Refused]:
        """Makes a change; Refused if the catalog cannot be written. The followers have it when this is answered."""
        if self._queue:
            wanted = _Wanted(decide)
            self._queue.append(wanted)
            return wanted.answer
        try:
            decision = decide()
            committed = self._commit(decision)
        except StorageError as error:
            return _failed(error)
        if committed is None:
            return decision.outcome
        wanted = _Wanted(decide)
        self._queue.append(wanted)
        self._wait(wanted, decision, committed)
        return wanted.answer

    def _commit(self, decision: Decision[Any]) -> asyncio.Future[int] | None:
        """Commits a decision; None if that is done."""
        if not decision.changes:
            return None
        committed = self._catalog.commit(decision.changes, self._catalog.revision)
        return committed if isinstance(committed, asyncio.Future) else None

    def _wait(
        self, wanted: _Wanted, decision: Decision[Any], committed: asyncio.Future[int]
    ) -> None:
        wanted.decisions += 1
        committed.add_done_callback(partial(self._committed, decision))

    def _committed(self, decision: Decision[Any], committed: asyncio.Future[int]) -> None:
        wanted = self._queue[0]
        error = asyncio.CancelledError() if committed.cancelled() else committed.exception()
        if isinstance(error, CatalogConflictError) and wanted.decisions < MAX_DECISIONS:
            self._go_on()
            return
        self._queue.popleft()
        if isinstance(error, StorageError):
            _answer(wanted, _failed(error))
        elif error is not None:
            _fail(wanted, error)
        else:
            _answer(wanted, decision.outcome)
        self._go_on()

    def _go_on(self) -> None:
        """Decides the first change of the queue, and those that follow as long as none has to wait."""
        while self._queue:
            wanted = self._queue[0]
            if not wanted.answer.done():  # else its client has gone
                try:
                    decision = wanted.decide()
                    committed = self._commit(decision)
                except StorageError as error:
                    _answer(wanted, _failed(error))
                except Exception as error:
                    _fail(wanted, error)
                else:
                    if committed is not None:
                        self._wait(wanted, decision, committed)
                        return
                    _answer(wanted, decision.outcome)
            self._queue.popleft()


def _failed(error: StorageError) -> Refused:
    return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _answer(wanted: _Wanted, outcome: object) -> None:
    if not wanted.answer.done():
        wanted.answer.set_result(outcome)


def _fail(wanted: _Wanted, error: BaseException) -> None:
    if wanted.answer.done():
        return
    if isinstance(error, asyncio.CancelledError):
        wanted.answer.cancel()
    else:
        wanted.answer.set_exception(error)
