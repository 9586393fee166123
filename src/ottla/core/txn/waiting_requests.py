"""Requests that wait for the end of their transactional id's last transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.core.deadlines import Deadlines
from ottla.core.turn import Ticket, Turn

# As long as Kafka's brokers wait for the same (add.partitions.to.txn.retry.backoff.max.ms), and about as long as
# clients that are told to come again.
LONGEST_WAIT_MS: Final = 100
# A producer has one such request in flight, and perhaps another instance its InitProducerId.
MOST_OF_AN_ID: Final = 8


class WaitingRequest(NamedTuple):
    """A request, and the decision about it that is made when it has waited."""

    ticket: Ticket
    decide: Callable[[Turn], Any]


class WaitingRequests:
    """The requests of each transactional id in the order in which they came."""

    def __init__(self) -> None:
        self._of_ids: dict[str, list[WaitingRequest]] = {}
        # When the first of an id has waited long enough; the others leave with it.
        self._due: Deadlines[str] = Deadlines()

    def add(self, transactional_id: str, request: WaitingRequest, uptime_ms: int) -> bool:
        """Keeps a request; False if too many of this id wait already."""
        waiting = self._of_ids.get(transactional_id)
        if waiting is None:
            self._of_ids[transactional_id] = [request]
            self._due.set(transactional_id, uptime_ms + LONGEST_WAIT_MS)
            return True
        if len(waiting) >= MOST_OF_AN_ID:
            return False
        waiting.append(request)
        return True

    def answer(self, turn: Turn, transactional_id: str) -> None:
        """Decides about the requests of an id now, in their order."""
        waiting = self._of_ids.pop(transactional_id, None)
        if waiting is None:
            return
        self._due.cancel(transactional_id)
        for request in waiting:
            turn.answer(request.ticket, request.decide(turn))

    def answer_due(self, turn: Turn) -> None:
        """Decides about the requests that have waited long enough."""
        if not self._of_ids:
            return
        transactional_id = self._due.pop_due(turn.uptime_ms)
        while transactional_id is not None:
            self.answer(turn, transactional_id)
            transactional_id = self._due.pop_due(turn.uptime_ms)

    def next_due_ms(self) -> int | None:
        """The uptime at which `answer_due` has to be called."""
        return self._due.next_ms() if self._of_ids else None
