"""What the workload asks of a client with transactions; one module per client translates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum

from tests.history.digest import Place

TRANSACTION_TIMEOUT_MS = 5_000

# An offset, or the error.
OnSent = Callable[[int | None, str], None]
Offsets = dict[Place, int]


class Then(Enum):
    """What a program has to do after a call has failed."""

    CALL_AGAIN = "the same call again: its outcome is not known"
    ABORT = "abort the transaction"
    END = "give the producer up: it was fenced, or is broken"


class FailedError(Exception):
    """A call failed."""

    def __init__(self, then: Then, text: str) -> None:
        super().__init__(f"{then.name}: {text}")
        self.then = then


class Client(ABC):
    """A producer with a transactional id, from its creation on ready to begin."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, place: Place, value: str, on_sent: OnSent) -> None: ...

    @abstractmethod
    def send_offsets(self, offsets: Offsets) -> None:
        """Makes the positions of the copied group part of the transaction."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...
